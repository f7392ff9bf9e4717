from __future__ import annotations

from regiontalk.serve.settings import Settings


def test_it_may_be_called_by_its_own_names_and_those_that_are_given() -> None:
    settings = Settings(host="::1", allowed_hosts=("Photos.Example",))
    assert settings.hosts == {"127.0.0.1", "localhost", "[::1]", "photos.example"}
