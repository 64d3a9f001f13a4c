"""MOE3: sizes that an FP8 product refuses. Fake tensors of a GPU meet the checks of CUDA; the CPU's own kernel takes any size."""

import pytest

torch = pytest.importorskip("torch")
from torch._subclasses.fake_tensor import FakeTensorMode

FP8 = torch.float8_e4m3fn


def product(tokens, inner, features):
    """The shape of (tokens x inner) @ (inner x features) in FP8."""
    with FakeTensorMode():
        left = torch.empty(tokens, inner, dtype=FP8, device="cuda")
        right = torch.empty(features, inner, dtype=FP8, device="cuda").t()
        one = torch.ones((), device="cuda")
        return tuple(
            torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16).shape
        )


def of_experts(width):
    """The shape of the product of two experts, whose rows are `width` numbers long in bf16."""
    with FakeTensorMode():
        tokens = torch.empty(32, width, dtype=torch.bfloat16, device="cuda")
        experts = torch.empty(2, 16, width, dtype=torch.bfloat16, device="cuda").transpose(-2, -1)
        ends = torch.empty(2, dtype=torch.int32, device="cuda")
        return tuple(torch._grouped_mm(tokens, experts, offs=ends).shape)


def test_input_features_that_do_not_fit(says):
    with pytest.raises(RuntimeError) as stop:
        product(32, 712, 896)
    says("MOE3", str(stop.value))


def test_a_head_of_two_classes_and_a_padded_vocabulary(says):
    with pytest.raises(RuntimeError) as stop:
        product(32, 768, 2)
    says("MOE3", str(stop.value))
    with pytest.raises(RuntimeError):
        product(32, 768, 50257)
    assert product(32, 768, 50257 + -50257 % 32) == (32, 50272)


def test_53_tokens_pass_forward_and_stop_the_gradient_of_the_weight(says):
    inner, features = 64, 32
    assert product(53, inner, features) == (53, features)
    with pytest.raises(RuntimeError) as stop:
        product(features, 53, inner)  # grad_output.t() @ input
    says("MOE3", str(stop.value))
    padded = 53 + -53 % 16
    assert product(features, padded, inner) == (features, inner)


def test_a_multiple_of_eight_tokens_is_too_little_backward():
    with pytest.raises(RuntimeError, match="divisible by 16"):
        product(32, 1912, 64)
    assert product(32, 1920, 64) == (32, 64)


def test_experts_count_bytes(says):
    with pytest.raises(RuntimeError) as stop:
        of_experts(37)
    says("MOE3", str(stop.value))
    assert of_experts(40) == (32, 16)


def test_the_cpu_takes_any_size():
    left, right, one = torch.ones(5, 30).to(FP8), torch.ones(17, 30).to(FP8).t(), torch.tensor(1.0)
    assert torch._scaled_mm(
        left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16
    ).shape == (5, 17)


def test_accelerate_leaves_out_what_does_not_fit():
    ao = pytest.importorskip("accelerate.utils.ao")
    layers = {"proj": torch.nn.Linear(64, 64), "head": torch.nn.Linear(64, 2)}
    kept = [name for name, layer in layers.items() if ao.filter_linear_layers(layer, name, {})]
    assert kept == ["proj"]


@pytest.mark.parametrize(
    "text",
    [
        "AssertionError: FP8 execution requires 2D input matrices with height divisible by 8 and width divisible by 16, but got tensor with dims=[896, 712]",
        "ValueError: FP8 execution requires the product of all dimensions except the last to be divisible by 8 and the last dimension to be divisible by 16",
        "AssertionError: Tensor dimensions are not compatible for FP8 execution: (2048 % 8 != 0, 767 % 16 != 0)",
        "RuntimeError: Expected trailing dimension of mat1 to be divisible by 16 but got mat1 shape: (768x53).",
        "RuntimeError: mat2 shape (768x2 must be divisible by 16",
        "Assertion failed: MXFP8 requires tensor dims that are divisble by 32 (got shape=(7984, 3072))",
        "AssertionError: the last dimension of shape torch.Size([65536, 16]) must be divisible by block_size 32",
        "Assertion failed: ret.lda % 16 == 0. Leading dimension requirement on A for FP8 GEMM. Caller must pad.",
        "RuntimeError: strides should be multiple of 16 bytes",
    ],
)
def test_texts_of_libraries_that_want_a_gpu(text, says):
    says("MOE3", text)


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: sequence length must be divisible by 16",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (768x53 and 64x2)",
        "The hidden size (712) is not divisible by the number of attention heads (16)",
        "ValueError: `height` and `width` have to be divisible by 8 but are 500 and 333.",
    ],
)
def test_sizes_of_something_else(text, says):
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("MOE3", text)


def test_the_line_of_the_check_lists_layers_that_do_not_fit_and_none_where_all_do(printed):
    layers = [torch.nn.Linear(64, 128), torch.nn.Linear(128, 10)]
    assert printed("MOE3", model=torch.nn.Sequential(*layers)) == "[('1', 128, 10)]"
    layers[1] = torch.nn.Linear(128, 16)
    assert printed("MOE3", model=torch.nn.Sequential(*layers)) == "[]"
