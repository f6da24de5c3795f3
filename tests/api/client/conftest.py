"""What a client speaks over: a store in this process, or a server in front of one."""

import pytest

from tests.api.client.job_states import OVER_HTTP, ServedBackend
from tests.support.fixtures.stores import AnyBackend, make_backend, postgres_template

__all__ = ["backend", "postgres_template"]


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> AnyBackend:
    """The backend of the store that the parameter names; `http` is SQLite behind a server."""
    if request.param == OVER_HTTP:
        return ServedBackend(request.getfixturevalue("volatile_folder"))
    return make_backend(request)
