// SPDX-License-Identifier: Apache-2.0

package event

import (
	"slices"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// A function with the parameters before and after returns the events of a change of an object.
// before is the state of the object before the change, and after its state after the change. before
// is the zero value for a new object. after is the zero value for a deleted object.

// OfTenant returns the events of a change of a tenant, except the event of a changed readiness.
// OfReadiness returns that event, because the readiness also depends on other objects.
func OfTenant(before, after tenant.Tenant) []Event {
	hasConsent := func(t tenant.Tenant, c tenant.Consent) bool { return t.GUID != "" && t.Consent == c }
	switch {
	case before.GUID == "" && after.GUID == "":
		return nil
	case before.GUID == "":
		return []Event{ofTenant(TenantConnected, after)}
	case after.GUID == "":
		return []Event{ofTenant(TenantRemoved, before)}
	case hasConsent(before, tenant.ConsentGranted) && hasConsent(after, tenant.ConsentRevoked):
		return []Event{ofTenant(TenantAccessLost, after)}
	case hasConsent(before, tenant.ConsentRevoked) && hasConsent(after, tenant.ConsentGranted):
		return []Event{ofTenant(TenantAccessRestored, after)}
	}
	return nil
}

func ofTenant(eventType Type, t tenant.Tenant) Event {
	return Event{Type: eventType, Tenant: t.GUID, Subject: Subject{Tenant, string(t.GUID)}, Data: TenantData{
		TenantID: string(t.GUID), TenantName: t.Name, TenantDomain: t.BuiltinDomain, Consent: string(t.Consent),
	}}
}

// OfReadiness returns the event of a tenant whose readiness changed.
func OfReadiness(tenantID tenant.GUID, r tenant.Readiness) Event {
	return Event{Type: TenantReadinessChanged, Tenant: tenantID, Subject: Subject{Tenant, string(tenantID)}, Data: ReadinessData{
		TenantID: string(tenantID), Status: string(r.Status()), Consent: string(r.Consent), ExchangeBootstrap: string(r.Bootstrap),
		SMTPAuth: string(r.SMTPAuth), Discovery: string(r.Discovery), DomainsVerified: r.DomainsVerified, DomainsTotal: r.DomainsTotal,
		MailboxesTotal: r.MailboxesTotal, ReadyToProvision: r.ReadyToProvision, NextStep: orNil(r.NextStep),
	}}
}

// OfDomain returns the events of a change of a domain. A domain that is only reserved (Added is
// false) counts as absent: if a missing domain becomes a reservation again, the event is
// DomainRemoved.
func OfDomain(before, after domain.Domain) []Event {
	switch {
	case !before.Added && !after.Added:
		return nil
	case !after.Added:
		return []Event{ofDomain(DomainRemoved, before)}
	}
	var events []Event
	for _, c := range []struct {
		eventType Type
		happened  bool
	}{
		{DomainAdded, !before.Added},
		{DomainVerified, after.Verified && !(before.Added && before.Verified)},
		{DomainDKIMEnabled, after.DKIMEnabled && !(before.Added && before.DKIMEnabled)},
		{DomainHealthChanged, !slices.Equal(before.Health.Drifted, after.Health.Drifted)},
	} {
		if c.happened {
			events = append(events, ofDomain(c.eventType, after))
		}
	}
	return events
}

func ofDomain(eventType Type, d domain.Domain) Event {
	drifted := make([]string, 0, len(d.Health.Drifted))
	for _, drift := range d.Health.Drifted {
		drifted = append(drifted, string(drift))
	}
	return Event{Type: eventType, Tenant: d.TenantGUID, Subject: Subject{Domain, d.ID}, Data: DomainData{
		TenantID: string(d.TenantGUID), DomainID: d.ID, Domain: d.Name, IsVerified: d.Verified, DKIMEnabled: d.DKIMEnabled, Drifted: drifted,
	}}
}

// OfJob returns the events of a change of a provisioning job. Only a job that requires an action or
// has failed gets an event. If the required action changes, the job gets a new event.
func OfJob(before, after provisioning.Job) []Event {
	switch {
	case before.Status == after.Status && before.RequiredAction == after.RequiredAction:
		return nil
	case after.Status == provisioning.ActionRequired:
		return []Event{ofJob(DNSJobActionRequired, after)}
	case after.Status == provisioning.Failed:
		return []Event{ofJob(DNSJobFailed, after)}
	}
	return nil
}

func ofJob(eventType Type, j provisioning.Job) Event {
	return Event{Type: eventType, Tenant: j.TenantGUID, Subject: Subject{DNSJob, j.ID}, Data: JobData{
		TenantID: string(j.TenantGUID), DomainID: j.DomainID, Domain: j.DomainName, RunID: j.RunID, JobID: j.ID,
		Stage: string(j.Stage), Status: string(j.Status), ActionRequiredCode: orNil(string(j.RequiredAction)),
	}}
}

// OfRun returns the event DNSRunCompleted if the change ended the last active job of the run.
// Otherwise it returns no event. before and after hold all jobs of the run. The event names a
// tenant if all jobs have the same tenant.
func OfRun(run provisioning.Run, before, after []provisioning.Job) []Event {
	runBefore, runAfter := run.With(before), run.With(after)
	if len(after) == 0 || !runBefore.Status.IsActive() || runAfter.Status.IsActive() {
		return nil
	}
	e := Event{Type: DNSRunCompleted, Tenant: after[0].TenantGUID, Subject: Subject{DNSRun, run.ID}, Data: RunData{
		RunID: run.ID, Status: string(runAfter.Status), TotalDomains: run.TotalDomains,
	}}
	if slices.ContainsFunc(after, func(j provisioning.Job) bool { return j.TenantGUID != e.Tenant }) {
		e.Tenant = ""
	}
	return []Event{e}
}

// OfMailbox returns the events of a change of a mailbox, except of a block or an unblock (see
// OfBlock). removalType is the type of the event of a deleted mailbox: MailboxVanished if the mail
// platform no longer has it, otherwise MailboxRemoved. A mailbox that was only reserved has no
// events.
//
// When a request reserves a missing mailbox again, OfMailbox returns nothing, because the mailbox
// is not deleted. If the platform later shows an object with the same id, OfMailbox does not return
// MailboxCreated a second time. An object with a different id is a new mailbox.
func OfMailbox(before, after mailbox.Mailbox, removalType Type) []Event {
	switch {
	case after.ID == "" && (before.Stage.IsListed() || before.ObjectID != ""):
		return []Event{ofMailbox(removalType, before)}
	case !after.Stage.IsListed():
		return nil
	case !before.Stage.IsListed() && !reappeared(before, after):
		return []Event{ofMailbox(MailboxCreated, after)}
	case shownParts(before) != shownParts(after):
		return []Event{ofMailbox(MailboxUpdated, after)}
	}
	return nil
}

// reappeared reports whether a discovery missed the mailbox, and the platform now shows the object
// that the mailbox had.
func reappeared(before, after mailbox.Mailbox) bool {
	return before.WasMissed() && before.ObjectID != "" && before.ObjectID == after.ObjectID
}

// shownParts returns the parts of a mailbox whose change causes the event MailboxUpdated.
func shownParts(m mailbox.Mailbox) any {
	return struct {
		isIncomplete               bool // the creation is not complete
		name, principalName, alias string
		enabled                    bool
		limit                      int
	}{m.Stage == mailbox.Created, m.DisplayName, m.PrincipalName, m.Alias, m.AccountEnabled, m.DailySendLimit}
}

func ofMailbox(eventType Type, m mailbox.Mailbox) Event {
	return Event{Type: eventType, Tenant: m.TenantGUID, Subject: Subject{Mailbox, m.ID}, Data: MailboxData{
		TenantID: string(m.TenantGUID), MailboxID: m.ID, Email: m.Address, DisplayName: m.DisplayName,
		AccountEnabled: m.AccountEnabled, DailySendLimit: orNil(m.DailySendLimit),
	}}
}

// OfBlock returns the event of a mailbox that was blocked or unblocked.
func OfBlock(mailboxID string, e sendlimit.Event) Event {
	eventType := MailboxUnblocked
	if e.Action == sendlimit.Blocked {
		eventType = MailboxBlocked
	}
	return Event{Type: eventType, Tenant: e.Tenant, Subject: Subject{Mailbox, mailboxID}, Data: BlockData{
		TenantID: string(e.Tenant), MailboxID: mailboxID, Email: e.Address, SentCount: e.Sent, LimitValue: e.Limit,
	}}
}

// OfIntegration returns the events of a change of an integration. If its credential works again,
// the event is IntegrationConnected, as for a new integration.
func OfIntegration(before, after integration.Integration) []Event {
	switch {
	case after.ID == "" && before.ID == "":
		return nil
	case after.ID == "":
		return []Event{ofIntegration(IntegrationRemoved, before)}
	case before.ID != "" && before.Status == after.Status:
		return nil
	case after.Status == integration.Failed:
		return []Event{ofIntegration(IntegrationCredentialRejected, after)}
	default:
		return []Event{ofIntegration(IntegrationConnected, after)}
	}
}

func ofIntegration(eventType Type, i integration.Integration) Event {
	return Event{Type: eventType, Subject: Subject{Integration, i.ID}, Data: IntegrationData{
		IntegrationID: i.ID, Provider: i.Provider, Name: i.Name, Status: string(i.Status),
	}}
}

// OfConnection returns the events of a change of a connection. tenantID is the tenant of the
// connection's mailbox. The event is ConnectionExpired if the status was ConnectionConnected and
// becomes ConnectionPending, ConnectionFailed or ConnectionOther.
func OfConnection(tenantID tenant.GUID, before, after integration.Connection) []Event {
	existed := before.ID != "" && before.Status != integration.ConnectionDisconnected
	if after.ID == "" { // a deleted connection
		after = before
		after.Status, after.Reason = integration.ConnectionDisconnected, ""
	} else if before.Status == integration.ConnectionPending && before.PlatformAccountID == "" {
		existed = false // the platform has shown no account, because the session did not start or was ended
	}
	var eventType Type
	switch {
	case after.Status == before.Status:
		return nil
	case after.Status == integration.ConnectionConnected:
		eventType = ConnectionConnected
	case after.Status == integration.ConnectionDisconnected && existed:
		eventType = ConnectionDisconnected
	case before.Status == integration.ConnectionConnected && after.Status != integration.ConnectionDisconnecting:
		eventType = ConnectionExpired
	default:
		return nil
	}
	return []Event{{Type: eventType, Tenant: tenantID, Subject: Subject{Connection, after.ID}, Data: ConnectionData{
		TenantID: string(tenantID), ConnectionID: after.ID, IntegrationID: after.IntegrationID, MailboxID: after.MailboxID,
		Status: string(after.Status), Reason: orNil(after.Reason),
	}}}
}

// OfPolicy returns the events of a change of a policy. A policy without a limit is only reserved,
// and counts as no policy.
func OfPolicy(before, after sendlimit.Policy) []Event {
	switch {
	case before.PerDay == after.PerDay:
		return nil
	case after.PerDay == 0:
		return []Event{ofPolicy(PolicyRemoved, before)}
	default:
		return []Event{ofPolicy(PolicySet, after)}
	}
}

func ofPolicy(eventType Type, p sendlimit.Policy) Event {
	return Event{Type: eventType, Tenant: p.Tenant, Subject: Subject{Policy, p.ID}, Data: PolicyData{
		TenantID: string(p.Tenant), PolicyID: p.ID, DomainScope: orNil(p.Scope), ScopeLabel: p.Label(), DailySendLimit: p.PerDay,
	}}
}

// OfKey returns the events of a change of an API key.
func OfKey(before, after access.Key) []Event {
	switch {
	case before.ID == "" && after.ID != "":
		return []Event{ofKey(KeyCreated, after)}
	case before.RevokedAt.IsZero() && !after.RevokedAt.IsZero():
		return []Event{ofKey(KeyRevoked, after)}
	}
	return nil
}

// OfRotation returns the event KeyRotated. newKey is the key that works after the rotation.
func OfRotation(newKey access.Key) Event { return ofKey(KeyRotated, newKey) }

func ofKey(eventType Type, k access.Key) Event {
	return Event{Type: eventType, Subject: Subject{Key, k.ID}, Data: KeyData{KeyID: k.ID, Name: k.Name, KeyHint: k.Hint}}
}
