# SPDX-License-Identifier: Apache-2.0
"""The rules that hold for every sending platform. Authors do not change this file.

An account is a dict with id, address, name, state, paused, has_error, reason and stamp. The state is
"connected", "pending", "failed" or "other". stamp changes whenever the account is signed in again.
"""

import ipaddress
import urllib.parse

from tenantry_plugin import Outcome


def methods():
    """Returns the calls of the service SendingPlatform."""
    from plugins.proto import sending_pb2 as pb

    def check(platform, call, _):
        return pb.SendingReach(workspaces=[pb.SendingWorkspace(**w) for w in platform.check(call)])

    def account(platform, call, request):
        return pb.SendingAccount(**platform.account(call, request.address) or {})

    def accounts(platform, call, request):
        found, following = platform.accounts(call, request.cursor)
        return pb.SendingPage(accounts=[pb.SendingAccount(**a) for a in found], next=following)

    def start_sign_in(platform, call, request):
        session, url, expires_at = platform.start_sign_in(call, request.address)
        answer = pb.SendingSignIn(id=session, url=url.encode())
        if expires_at:
            answer.expires_at.FromDatetime(expires_at)
        return answer

    def sign_in(platform, call, request):
        return pb.SendingProgress(**platform.sign_in(call, request.session))

    def remove(platform, call, request):
        platform.remove(call, request.account)
        return pb.Removed()

    return {
        "SendingPlatform/Check": (pb.SendingCheckRequest, check),
        "SendingPlatform/Account": (pb.SendingAccountRequest, account),
        "SendingPlatform/Accounts": (pb.SendingAccountsRequest, accounts),
        "SendingPlatform/StartSignIn": (pb.StartSignInRequest, start_sign_in),
        "SendingPlatform/SignIn": (pb.SendingSignInRequest, sign_in),
        "SendingPlatform/Remove": (pb.RemoveRequest, remove),
    }


def plan_inactive():
    """Returns the outcome for a valid credential whose account has no active plan."""
    return Outcome("refused", "plan_inactive", "the account at the provider has no active plan", "access_denied")


def not_supported(capability):
    """Returns the outcome for an operation that the platform or the credential does not support."""
    return Outcome("refused", f"no {capability}", "the provider cannot do this, or not with this credential", "capability_not_supported")


def same_address(a, b):
    """Reports whether two mail addresses are equal. Only the case of ASCII letters is ignored."""
    return a.encode().lower() == b.encode().lower()


def sign_in_link(url, hosts):
    """Reports whether a link leads to one of the hosts by https, or by http to a loopback address."""
    try:
        parts = urllib.parse.urlsplit(url)
        loopback = parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
    return url.isascii() and url.isprintable() and parts.netloc in hosts and (loopback or parts.scheme == "https")
