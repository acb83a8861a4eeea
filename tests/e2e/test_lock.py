"""The project's own lock was counted with the model that `foreword up` makes."""

import pytest

from tests.e2e.conftest import UserStack

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


def test_the_projects_lock_is_current_with_the_default_models_own_tokenizer(
    user_stack: UserStack,
) -> None:
    done = user_stack.run("foreword lock --check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "prompts.lock is current: 5 templates\n"


def test_a_prompt_is_rendered_with_the_default_models_tokens(user_stack: UserStack) -> None:
    done = user_stack.run("foreword render docqa --tokens --var question=Where?")
    assert done.returncode == 0, done.stderr
    assert '"<|im_start|>"' in done.stdout
    assert "▌ rules · system · static · 64 tokens [3, 67)" in done.stdout
