"""Concepts: what people write in many ways, and the one word that the ranking counts it as.

A concept is recognised by single words, by one word closely followed by another, or by a Chinese
term. Words are compared by their stems, so "decrease" stands for "decreasing" and "decreased" too.
"""

from __future__ import annotations

import re
from functools import lru_cache

REACH = 3  # how many words after the first the second may stand

_NOT = "not never no bare hard stop doesn don isn didn won cannot without fail refuse longer"
_MANY = "two multi multiple several both four eight #2 #3 #4 #5 #6 #7 #8 #16 #32 #64"
# name: (words, "first > second" pairs separated by commas, Chinese terms separated by "|")
_TOLD = {
    "@flat": (
        "flat plateau stagnate",
        f"{_NOT} > decrease go drop change converge learn improve move budge update fall reduce "
        "lower, stuck stay hover remain > around same constant high, same constant > loss",
        "不下降|不收敛|不变|降不下去|学不到|没有变化|不动|不更新|下不去|不降|学不会",
    ),
    "@hang": (
        "hang hung freeze frozen stuck deadlock stall block",
        f"{_NOT} > finish return proceed continue respond output progress end make, "
        "wait > forever infinite",
        "卡住|卡死|挂起|卡在|不动了|死锁|一直等|没反应|无响应|假死",
    ),
    "@oom": (
        "oom outofmemory outofmemoryerror",
        "out > memory, cuda > memory, run ran > memory",
        "爆显存|显存不足|显存溢出|显存爆|显存不够|内存不足|爆内存|内存溢出",
    ),
    "@nan": ("nan nans inf infinite nonfinite", "non not > finite", "变成nan|出现nan|发散|溢出"),
    "@killed": (
        "kill sigkill #sigkill",
        "exit exitcode code > #sigkill #9, signal > #9",
        "被杀|被kill|killed|进程被",
    ),
    "@timeout": ("timeout", "timed time > out", "超时"),
    "@slow": (
        "slow slower slowly crawl bottleneck",
        "take took > longer forever hour, low > utilization util, gpu > idle",
        "很慢|变慢|太慢|速度慢|利用率低|特别慢|拖慢",
    ),
    "@multi": (
        "multigpu ddp multiprocess distributed",
        f"{_MANY} > gpu gpus card a100 h100 v100 process rank, multi > gpu",
        "多卡|双卡|多gpu|分布式|两张卡|四卡|八卡|8卡|4卡|2卡",
    ),
    "@single": (
        "",
        "single one #1 > gpu card process, without > ddp",
        "单卡|单gpu|单机单卡|一张卡",
    ),
    "@node": (
        "multinode",
        "multi two second #2 #4 #8 other another > node machine server host box",
        "多机|多节点|两台|跨机|另一台",
    ),
    "@resume": (
        "resume restart relaunch reload requeue preempt",
        "continue > train checkpoint, pick picked > up",
        "断点|续训|恢复训练|重新加载|继续训练|接着训|重启",
    ),
    "@save": ("save checkpoint ckpt", "", "保存|存模型|检查点|存盘"),
    "@load": ("load from_pretrained load_state_dict", "", "加载|读取|载入"),
    "@eval": ("eval evaluate valid val inference test", "", "验证|测试|推理|评估"),
    "@fewer": (
        "",
        "few less missing lost drop > sample step batch item record",
        "少了|缺了|变少|丢了",
    ),
    "@frozen": (
        "requires_grad",
        "freeze frozen > layer weight backbone encode param base bert bn",
        "冻结|固定参数|不训练",
    ),
    "@random": (
        "chance guess",
        "random > chance guess level, accuracy acc > #50 #10 #0",
        "随机|瞎猜|乱猜|随机猜",
    ),
    "@dup": (
        "duplicate twice",
        "print log run appear show > time twice, every each > process rank gpu, #2 #4 #8 > time",
        "重复|多次打印|每个进程都|打印多次|两遍",
    ),
    "@spike": (
        "spik explode blow blew diverge jump skyrocket surge",
        "shoot shot goes go went > up high",
        "突然变大|飙升|爆炸|突增|暴涨|突然升高|跳变|尖峰",
    ),
    "@suddenly": (
        "suddenly",
        "after > #num thousand while few step epoch hour, reach > step iteration",
        "突然|跑了|训练到|到第|一段时间后",
    ),
    "@begin": (
        "",
        "first begin start > step iteration batch epoch train, right > away start, begin > train",
        "第一步|一开始|刚开始|开头|第一个",
    ),
    "@end": (
        "",
        "last end final > batch step epoch iteration, drop > last",
        "最后一个|最后一步|最后一批|末尾|结束时",
    ),
    "@noise": (
        "noise noisy garbag gibberish nonsense blur blurry black gray grey artifact washed "
        "oversaturat green",
        "random > pixel",
        "噪声|噪点|乱码|胡言|花屏|模糊|全黑|灰色|雪花|偏色|过饱和",
    ),
    "@repeats": (
        "loop repetitive parrot echo",
        "repeat > itself sam sentence prompt token word phrase, never not > stop eos",
        "复读|重复输出|停不下来|一直输出|不停|重复同",
    ),
    "@reward": ("reward return episode ep_rew_mean", "", "奖励|回报|得分"),
    "@kl": ("kl divergence", "", "散度"),
    "@policy": (
        "ppo dpo grpo rlhf actor critic policy agent sac dqn td3 a2c reinforce",
        "",
        "强化学习|智能体|策略网络",
    ),
    "@seed": (
        "seed reproduce determin deterministic nondeterministic",
        "run > run, each every > run time",
        "随机种子|复现|可复现|确定性|每次运行|每次训练结果|种子",
    ),
    "@half": ("fp16 half float16 amp autocast gradscal mixed", "", "半精度|混合精度"),
    "@bf16": ("bf16 bfloat16", "", ""),
    "@full": ("fp32 float32 tf32", "", "单精度"),
    "@grow": (
        "leak",
        "memory ram usage > grow increase climb rise creep leak up, "
        "grow increase climb > memory ram",
        "内存泄漏|一直涨|内存增长|不断增长|越来越大|持续上涨|不断上升|逐渐增加",
    ),
    "@host": ("ram cpu", "host system cpu > memory", "内存"),
    "@worker": ("num_worker worker dataloader", "", "子进程|数据加载|工作进程"),
    "@order": ("shuffle order sampler set_epoch", "", "打乱|顺序|采样器"),
    "@same": (
        "identical",
        "same exact exactly > batch sample image output order prediction every value result",
        "一样|相同|一模一样|同样的",
    ),
    "@differs": (
        "inconsistent mismatch vary nondeterminist",
        "different > result number output value score each every",
        "不一致|不一样|不同|对不上|不相等",
    ),
    "@shape": (
        "size_mismatch",
        "size shape > mismatch match different, missing unexpected > key",
        "不匹配|尺寸不|形状不|维度不",
    ),
    "@zero": (
        "zero",
        "always all only exactly > #0 zero, stay remain > #0 zero",
        "为0|全是0|一直是0|全0|都是0|等于0|为零",
    ),
    "@lr": ("lr scheduler schedule warmup warmup_step", "learn > rate", "学习率|预热|调度器"),
    "@grad": ("grad gradient grad_norm backward", "", "梯度|反向传播"),
    "@clip": ("clip clip_grad_norm_ max_norm", "", "裁剪"),
    "@accum": ("accumulate gradient_accumulation_step", "", "累积|累加"),
    "@worse": (
        "worse degrade poor bad deteriorate collapse suck",
        "low lower drop decrease fall > accuracy acc score performance map quality metric, "
        "below > paper report baselin expect",
        "变差|掉点|效果差|效果不好|性能下降|精度下降|准确率下降|变低|效果很差|不如|崩",
    ),
    "@overfit": ("overfit memorize", "train > perfect good high fine", "过拟合"),
    "@label": ("label class target", "", "标签|类别"),
    "@detect": (
        "map ap iou box bbox detect segment miou anchor mask",
        "",
        "检测框|检测|分割|边框|框",
    ),
    "@imag": ("image picture photo pixel png jpg opencv pil", "", "图像|图片|照片"),
    "@vlm": (
        "llava vlm vision multimodal clip projector mm_projector internvl vit",
        "vision > language encode tower",
        "多模态|视觉|看图|图文",
    ),
    "@diffus": (
        "diffusion ddpm ddim sample unet vae latent guidance guidance_scal cfg ema snr denoise",
        "",
        "扩散|采样|文生图|去噪",
    ),
    "@finetune": ("finetune sft lora qlora peft adapter", "fine > tune", "微调"),
    "@pad": ("pad padding attention_mask pad_token padding_sid", "", "填充|补齐"),
    "@prompt": ("prompt template chat instruct system", "", "模板|提示词|对话|指令"),
    "@tokens": ("token tokeniz vocab eos bos perplexity", "", "分词|词表|困惑度"),
    "@access": (
        "gated permission unauthorized forbidden login #401 #403 denied",
        "",
        "权限|授权|登录",
    ),
    "@gone": (
        "delete gone disappear vanish wipe erased",
        f"{_NOT} > exist find found",
        "删除|不见了|丢失|没了|被删|找不到|消失",
    ),
    "@corrupt": (
        "corrupt truncated unexpected_eof zip archive unpickl",
        "central > director",
        "损坏|坏了|不完整",
    ),
    "@ignored": (
        "ignore",
        f"{_NOT} > effect work respect apply take applied, no > effect",
        "没有效果|不起作用|无效|不生效|没生效|没用",
    ),
    "@warn": ("warn warning", "", "警告"),
    "@elsewhere": (
        "keras tensorflow tf tflearn paddle paddlepaddle jax flax mlx mxnet darknet caffe "
        "mindspore matlab julia xgboost lightgbm sklearn pandas spark dask unity",
        "",
        "飞桨|昇思",
    ),
    "@serving": (
        "onnx tensorrt coreml tflite openvino ncnn trt vllm sglang tgi ollama gguf comfyui webui "
        "automatic1111 forge deployment serverless endpoint",
        "inference > server endpoint api",
        "部署|推理服务|转换模型",
    ),
    "@wish": (
        "wish feature suggestion",
        "feature > request, like > add support, nice > add support, "
        "please > add support provide release",
        "建议|希望支持|能否支持|请问支持|什么时候开源",
    ),
    "@paper": (
        "paper reproduce protocol split benchmark leaderboard",
        "report > paper table number result",
        "论文|复现结果|划分",
    ),
    "@idle": (
        "idle utilization utilisation gpu_util underutil",
        "low > usage use utilization util, gpu > wait idle",
        "利用率|空闲|占用率",
    ),
    "@orchestrator": (
        "skypilot sky dstack kubeflow kueue volcano ray airflow submitit terraform snakemake "
        "nextflow metaflow",
        "",
        "",
    ),
    "@tried": ("tried already", "", "试过|尝试|已经|都试了"),
}


@lru_cache(maxsize=20000)
def stem(word: str) -> str:
    """A word without its common English ending."""
    for ending in ("ations", "ation", "ings", "ing", "edly", "ed", "ies", "es", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word[-1] == "e" else word


def _stems(words: str) -> list[str]:
    return [word if word[0] == "#" or "_" in word else stem(word) for word in words.split()]


def _compile() -> tuple[
    dict[str, tuple[str, ...]], dict[str, tuple[tuple[frozenset[str], str], ...]], dict[str, str]
]:
    single: dict[str, tuple[str, ...]] = {}
    first: dict[str, tuple[tuple[frozenset[str], str], ...]] = {}
    chinese: dict[str, str] = {}
    for name, (alone, pairs, terms) in _TOLD.items():
        for word in _stems(alone):
            single[word] = (*single.get(word, ()), name)
        for pair in pairs.split(", ") if pairs else ():
            left, right = pair.split(" > ")
            for word in _stems(left):
                first[word] = (*first.get(word, ()), (frozenset(_stems(right)), name))
        for term in terms.split("|") if terms else ():
            chinese[term] = name
    return single, first, chinese


_SINGLE, _FIRST, _CHINESE = _compile()
_WORDS = _SINGLE.keys() | _FIRST.keys()
_TERMS = re.compile("|".join(sorted(map(re.escape, _CHINESE), key=len, reverse=True)), re.I)


def concepts(tokens: list[str], text: str, chinese: bool) -> list[str]:
    """The concepts in a line, each once.

    `tokens` are its counted words, `text` the line itself; `chinese`: whether it may hold Chinese.
    """
    return list(told_by(tokens, text, chinese))


def told_by(tokens: list[str], text: str, chinese: bool) -> dict[str, tuple[str, ...]]:
    """{concept: the one or two words, or the Chinese term, that tell it}; read as `concepts` is."""
    found: dict[str, tuple[str, ...]] = {}
    for at, token in enumerate(tokens):
        if token not in _WORDS:
            continue
        for name in _SINGLE.get(token, ()):
            found.setdefault(name, (token,))
        for seconds, name in _FIRST.get(token, ()):
            near = tokens[at + 1 : at + 1 + REACH]
            if name not in found and not seconds.isdisjoint(near):
                found[name] = (token, next(word for word in near if word in seconds))
    if chinese:
        for term in _TERMS.findall(text):
            found.setdefault(_CHINESE[term.lower()], (term,))
    return found
