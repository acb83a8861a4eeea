"""No setting sends the gateway's requests to itself, or to where clouds keep credentials."""

from pathlib import Path

import pytest

from app.errors import InvalidSettingError
from app.outgoing import check_literals, check_names
from app.settings import ReplicasSettings, Settings, ShadowSettings, TiersSettings
from tests.gateways import gateway_settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = gateway_settings(tmp_path, "http://127.0.0.1:30000")
    here = made.gateway.model_copy(update={"host": "0.0.0.0", "port": 8400})
    return made.model_copy(update={"gateway": here})


@pytest.mark.parametrize(
    "section",
    [
        {"replicas": ReplicasSettings(urls=("http://10.0.0.1:1", "http://127.0.0.1:8400"))},
        {"tiers": TiersSettings(url="http://127.0.0.1:8400")},
        {"tiers": TiersSettings(urls=("http://169.254.1.1",))},
        {"tiers": TiersSettings(port=8400)},
        {"shadow": ShadowSettings(url="http://127.0.0.1:8400/v1")},
        {"shadow": ShadowSettings(url="http://169.254.169.254")},
    ],
)
async def test_each_setting_is_held_to_it(settings: Settings, section: dict[str, object]) -> None:
    wrong = settings.model_copy(update=section)
    [name] = section
    with pytest.raises(InvalidSettingError) as caught:
        check_literals(wrong)
    assert caught.value.setting.startswith(name)
    with pytest.raises(InvalidSettingError, match="can't be asked"):
        await check_names(wrong)
    check_literals(settings)
    await check_names(settings)


async def test_names_are_looked_up_and_those_without_an_address_may_get_one(
    settings: Settings,
) -> None:
    """In one go with what is started beside the gateway, an engine's name comes later."""
    later = ReplicasSettings(urls=("http://engine.invalid:8400",))
    await check_names(settings.model_copy(update={"replicas": later}))
    itself = ReplicasSettings(urls=("http://ip6-localhost.invalid:1", "http://localhost:8400"))
    with pytest.raises(InvalidSettingError, match="this gateway itself"):
        await check_names(settings.model_copy(update={"replicas": itself}))


async def test_an_engine_that_no_discovery_uses_is_not_looked_at(settings: Settings) -> None:
    found = ReplicasSettings(discovery="dns", dns="engines.invalid:30000")
    unused = settings.gateway.model_copy(update={"port": 30000})
    check_literals(settings.model_copy(update={"replicas": found, "gateway": unused}))


async def test_what_is_no_url_is_told_elsewhere(settings: Settings) -> None:
    odd = ReplicasSettings(urls=("http://[", "http://a:99999", "nonsense"))
    check_literals(settings.model_copy(update={"replicas": odd}))
    await check_names(settings.model_copy(update={"replicas": odd}))
