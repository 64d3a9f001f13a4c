from remote_gpu_trainer.retrieval.remembered import Remembered


def test_each_answer_is_reckoned_once_also_through_map():
    asked = []
    lengths = Remembered(lambda word: asked.append(word) or len(word))
    assert list(map(lengths.__getitem__, ["ab", "c", "ab"])) == [2, 1, 2]
    assert asked == ["ab", "c"]


def test_no_more_than_so_many_are_kept():
    squares = Remembered(lambda number: number * number, most=3)
    assert [squares[number] for number in range(10)] == [number * number for number in range(10)]
    assert len(squares) <= 3
