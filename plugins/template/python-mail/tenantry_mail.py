# SPDX-License-Identifier: Apache-2.0
"""The calls and the rules of all mail platforms. Authors do not change this file.

ports/mailplatform.go of tenantry says what each call promises. Objects such as domains and
mailboxes are dicts with the fields of their messages in plugins/proto/mail.proto. Times are
datetimes.
"""

import datetime
import hashlib
import re

from tenantry_plugin import Outcome


def methods():
    """Returns the calls of the service MailPlatform."""
    from google.protobuf import timestamp_pb2
    from plugins.proto import mail_pb2 as pb

    def timestamp(time):
        message = timestamp_pb2.Timestamp()
        message.FromDatetime(time)
        return message

    def mailbox(found):
        return pb.SharedMailbox(**{**found, "created_at": timestamp(found["created_at"])})

    def sign_in(request):
        s = request.sign_in
        return {"tenant": s.tenant, "state": s.state, "nonce": s.nonce, "verifier": s.verifier.decode(), "redirect": s.redirect}

    def check(platform, call, _):
        platform.check(call)
        return pb.Done()

    def tenant(request_type, answer):
        """Returns a call about one tenant. answer gets the tenant t and the request r."""
        return request_type, lambda platform, call, r: answer(platform.tenant(call, r.tenant), r)

    def done(request_type, act):
        """Returns a call that is about one tenant and has no result."""
        def answer(t, r):
            act(t, r)
            return pb.Done()
        return tenant(request_type, answer)

    def sent(t, r):
        times = (time.ToDatetime(datetime.timezone.utc) for time in (getattr(r, "from"), r.to))
        found, following = t.sent(*times, r.cursor, list(r.senders))
        return pb.SentAnswer(sent=[pb.SentMessage(**{**m, "at": timestamp(m["at"])}) for m in found], next=following)

    one, domain, box, rule = pb.TenantRequest, pb.DomainRequest, pb.MailboxRequest, pb.SendRuleRequest
    calls = {
        "Check": (pb.CheckRequest, check),
        "ConsentURL": (pb.ConsentURLRequest, lambda p, _, r: pb.URL(url=p.consent_url(r.state, r.redirect))),
        "Granted": (pb.GrantedRequest, lambda p, _, r: pb.GrantedAnswer(tenant=p.granted(r.query))),
        "SignInURL": (pb.SignInURLRequest, lambda p, _, r: pb.URL(url=p.sign_in_url(sign_in(r)))),
        "Administrator": (pb.AdministratorRequest, lambda p, call, r: pb.AdministratorAnswer(
            **p.administrator(call, sign_in(r), r.code.decode()))),

        "Profile": tenant(one, lambda t, _: pb.TenantProfile(**t.profile())),
        "Domains": tenant(one, lambda t, _: pb.DomainsAnswer(domains=t.domains())),
        "Domain": tenant(domain, lambda t, r: pb.PlatformDomain(**t.domain(r.name))),
        "AddDomain": tenant(domain, lambda t, r: pb.PlatformDomain(**t.add_domain(r.name))),
        "Records": tenant(domain, lambda t, r: pb.RecordsAnswer(**t.records(r.name))),
        "VerifyDomain": tenant(domain, lambda t, r: pb.PlatformDomain(**t.verify_domain(r.name))),
        "EnableMail": done(domain, lambda t, r: t.enable_mail(r.name)),
        "RemoveDomain": done(domain, lambda t, r: t.remove_domain(r.name)),

        "Bootstrap": tenant(one, lambda t, _: pb.Progress(**t.bootstrap())),
        "SMTPAuth": tenant(one, lambda t, _: pb.SMTPAuthAnswer(state=t.smtp_auth())),
        "EnableSMTPAuth": done(one, lambda t, _: t.enable_smtp_auth()),
        "MailDomains": tenant(one, lambda t, _: pb.MailDomainsAnswer(domains=t.mail_domains())),
        "Signing": tenant(domain, lambda t, r: pb.DomainSigning(**t.signing(r.name) or {})),
        "EnsureSigning": tenant(domain, lambda t, r: pb.DomainSigning(**t.ensure_signing(r.name))),
        "EnableSigning": done(domain, lambda t, r: t.enable_signing(r.name)),

        "Mailboxes": tenant(one, lambda t, _: pb.MailboxesAnswer(mailboxes=[mailbox(m) for m in t.mailboxes()])),
        "UserMailboxes": tenant(one, lambda t, _: pb.UserMailboxesAnswer(count=t.user_mailboxes())),
        "EmailLicenses": tenant(one, lambda t, _: pb.EmailLicensesAnswer(**t.email_licenses())),
        "Mailbox": tenant(box, lambda t, r: mailbox(t.mailbox(r.address))),
        "CreateMailbox": tenant(pb.CreateMailboxRequest, lambda t, r: mailbox(t.create_mailbox(r.display_name, r.address))),
        "OpenSignIn": done(pb.OpenSignInRequest, lambda t, r: t.open_sign_in(r.object_id, r.address, r.password.decode())),
        "OpenSubmission": done(box, lambda t, r: t.open_submission(r.address)),
        "Rename": done(pb.RenameRequest, lambda t, r: t.rename(r.address, r.display_name)),
        "RemoveMailbox": done(pb.RemoveMailboxRequest, lambda t, r: t.remove_mailbox(r.object_id)),

        "EnsureRule": tenant(rule, lambda t, r: pb.SendRule(**t.ensure_rule(r.scope, normalized(r.mailboxes)) or {})),
        "Block": tenant(rule, lambda t, r: pb.SendRule(**t.block(r.scope, normalized(r.mailboxes)) or {})),
        "Rules": tenant(one, lambda t, _: pb.RulesAnswer(rules=t.rules())),
        "RemoveRule": done(rule, lambda t, r: t.remove_rule(r.scope)),
        "RemoveRules": done(one, lambda t, _: t.remove_rules()),
        "Sent": tenant(pb.SentRequest, sent),
    }
    return {"MailPlatform/" + name: call for name, call in calls.items()}


def refused_as(code, cause, detail="the platform refused this"):
    """Returns a refusal with a published error code, such as domain_not_found."""
    return Outcome("refused", cause, detail, code)


def waits_for(cause):
    """Returns the outcome for a call that the platform cannot perform yet. Nothing changed."""
    return Outcome("not_ready", cause, "the platform is not ready for this")


def normalized(addresses):
    """Returns addresses in lower case and sorted, each once."""
    return sorted({a.lower() for a in addresses})


# A rule that blocks mailboxes has a scope: a domain, or "" for the whole tenant.
_PREFIX, _LONGEST, _DIGITS = "tenantry-block-", 64, 12
_TENANT_WIDE = _PREFIX + "tenantwide"


def rule_name(scope):
    """Returns the name of the rule of a scope. A long domain is cut and gets a checksum."""
    if not scope:
        return _TENANT_WIDE
    scope = scope.lower()
    if len(_PREFIX + scope) <= _LONGEST:
        return _PREFIX + scope
    kept = _LONGEST - len(_PREFIX) - 1 - _DIGITS
    return f"{_PREFIX}{scope[:kept]}-{hashlib.sha256(scope.encode()).hexdigest()[:_DIGITS]}"


def is_rule_name(name):
    """Reports whether rule_name can return this name. Foreign rules may have the prefix too."""
    name = name.lower()
    scope = name.removeprefix(_PREFIX)
    if scope == name or len(name) > _LONGEST or not re.fullmatch(r"[a-z0-9.-]*", scope):
        return False
    cut = len(name) == _LONGEST and re.search(r"-[0-9a-f]{12}\Z", name)
    return name == _TENANT_WIDE or "." in scope.strip(".-") or bool(cut)
