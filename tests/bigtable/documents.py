"""Maps and histories of cells as JSON, in one form whoever has written them."""

import json

from values import EPOCH, stamp_of


def of_json(at, value):
    """A map as clients get it, its versions as pairs of stamp and value."""
    if isinstance(value, dict) and any(isinstance(each, list) for each in value.values()):
        stamp = lambda text: at.stamp(stamp_of(EPOCH.fromisoformat(text)))
        value = {name: [[stamp(each["timestamp"]), each["value"]] for each in found] for name, found in value.items()}
    return canonical(value)


def plain(value):
    """A number in one form: JSON has one kind of them."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return int(value) if abs(value) < 2**53 and value == int(value) else float(value)


def canonical(value):
    """A document as a text, however its keys are ordered."""
    return json.dumps(plain(value), sort_keys=True, ensure_ascii=False)
