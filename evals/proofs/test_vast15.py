"""VAST15: only a list without the id counts as gone; an error that prints no list doesn't."""

LIST = "show instances --raw"


def status(provider, shell_of, output):
    provider.printing("vastai", {LIST: output})
    line = shell_of("VAST15", "python3 -c").replace("==ID", "==12345")
    return provider.done(line)


def test_the_check_exits_0_only_for_a_list_without_the_id(provider, shell_of):
    assert status(provider, shell_of, [{"id": 12345, "actual_status": "exited"}]).returncode == 1
    assert status(provider, shell_of, [{"id": 999, "actual_status": "running"}]).returncode == 0
    assert status(provider, shell_of, []).returncode == 0


def test_a_failed_request_is_not_taken_for_gone(provider, shell_of):
    failed = status(provider, shell_of, "Failed with error 401: Invalid user key\n")
    assert failed.returncode != 0 and "JSONDecodeError" in failed.stderr


def test_the_words_of_an_unanswered_question_name_the_entry(says):
    says("VAST15", "Are you sure you want to destroy instances 12345? This is irreversible")
