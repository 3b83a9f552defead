"""server.yaml's `router` and `auth` as the figures a gateway works by."""

from llmgw.config.server import ServerConfig
from llmgw.ports import GatewaySettings


def gateway_settings(config: ServerConfig) -> GatewaySettings:
    """Return the gateway's settings of one configuration."""
    router, auth = config.router, config.auth
    return GatewaySettings(
        keys_required=auth.enabled,
        inject_usage=router.inject_usage,
        max_body_bytes=router.max_body_bytes,
        scrape_interval_s=router.scrape_interval,
        dial_s=router.timeouts.dial,
        first_byte_s=router.timeouts.first_byte,
        idle_s=router.timeouts.idle,
        total_s=router.timeouts.total,
        load_wait_s=router.admission.load_wait,
        prompt_price_micros={name: price.prompt_per_1k for name, price in auth.pricing.items()},
        completion_price_micros={name: price.completion_per_1k for name, price in auth.pricing.items()},
        default_prompt_price_micros=auth.default_price.prompt_per_1k,
        default_completion_price_micros=auth.default_price.completion_per_1k,
        trusted_proxies=tuple(router.trusted_proxies),
    )
