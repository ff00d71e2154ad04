"""What a check of `nexarch doctor` finds."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the doctor's report; `mend` says what to do, and is empty where nothing is to be done."""

    check: str
    status: Status
    detail: str
    mend: str = ""


# Between two clocks. A user's token is refused outside its times, so half a minute already hurts.
_SKEW_WARN_S = 5.0
_SKEW_FAIL_S = 30.0


def clock_finding(check: str, skew_s: float, uncertainty_s: float) -> Finding:
    """Judge the difference between another clock and ours; less than the uncertainty is none."""
    size = max(0.0, abs(skew_s) - uncertainty_s)
    if size <= _SKEW_WARN_S:
        return Finding(check=check, status="ok", detail="agrees with this computer's")
    side = "ahead of" if skew_s > 0 else "behind"
    return Finding(
        check=check,
        status="fail" if size > _SKEW_FAIL_S else "warn",
        detail=f"{size:.0f} s {side} this computer's",
        mend="Let NTP set both clocks (timedatectl set-ntp true): tokens and retries go by them.",
    )
