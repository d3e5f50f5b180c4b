"""No golden file goes unnoticed: one that no check of this folder takes is skipped by name."""


def test_has_a_check(known_file):
    assert known_file.keys()
