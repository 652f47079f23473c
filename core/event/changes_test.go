// SPDX-License-Identifier: Apache-2.0

package event_test // an external test package, because core/webhook imports this package

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/domain"
	. "github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/core/webhook"
)

var later = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// field describes a change of one field of an object. The change causes an event, or there is a
// reason why it causes none.
type field struct {
	to     any
	event  Type
	reason string
}

func silent(reason string) field { return field{reason: reason} }

const (
	identity = "an object keeps its ids"
	derived  = "derived from other objects; a part of the readiness"
	unstored = "not stored"
	internal = "no caller sees it"
	setting  = "a setting that the account itself changes; the audit has it"
	operated = "the operator changes it; the audit of the account has it"
)

// TestEveryFieldHasEventOrReason changes each field of the subjects' types. A new field must be
// listed with the event of its change, or with the reason why its change has no event.
func TestEveryFieldHasEventOrReason(t *testing.T) {
	checkFields(t, tenant.Tenant{GUID: "t", Consent: tenant.ConsentGranted}, tenantEvents, map[string]field{
		"ID": silent(identity), "GUID": silent(identity),
		"Name":                        silent("the platform's label; the next event of the tenant shows it"),
		"BuiltinDomain":               silent("the platform's label; the next event of the tenant shows it"),
		"DefaultDomain":               silent("the platform's choice among the domains, which have events of their own"),
		"Managed":                     silent("set when the tenant is assigned, which connects it"),
		"Consent":                     {to: tenant.ConsentRevoked, event: TenantAccessLost},
		"ConsentedAt":                 silent("a consent that is given again changes nothing while the old one works"),
		"ConnectedBy":                 silent("as ConsentedAt"),
		"Bootstrap":                   {to: tenant.BootstrapReady, event: TenantReadinessChanged},
		"BootstrapStep":               {to: tenant.StepGrantRole, event: TenantReadinessChanged},
		"SMTPAuth":                    {to: tenant.SMTPAuthEnabled, event: TenantReadinessChanged},
		"Discovery":                   {to: tenant.DiscoveryCompleted, event: TenantReadinessChanged},
		"LastSyncAt":                  silent("a sync that finds nothing new is no news"),
		"UserMailboxes":               silent("a number of mailboxes that the service does not manage"),
		"DomainCount":                 {to: 1, event: TenantReadinessChanged},
		"DomainsVerified":             {to: 1, event: TenantReadinessChanged},
		"DomainsSigned":               silent(derived + "; it decides the next step, see TestNextStepIsPartOfReadiness"),
		"DomainsAwaitingVerification": silent(derived + "; it decides the next step, see TestNextStepIsPartOfReadiness"),
		"MailboxCount":                {to: 1, event: TenantReadinessChanged},
		"Observed":                    silent(internal),
	})
	checkFields(t, domain.Domain{ID: "d", TenantGUID: "t", Added: true}, OfDomain, map[string]field{
		"ID": silent(identity), "TenantID": silent(identity), "TenantGUID": silent(identity), "Name": silent(identity),
		"Added":        {to: false, event: DomainRemoved},
		"JustReserved": silent(unstored), "ReservedAt": silent(internal), "PreviousReservedAt": silent(internal),
		"Default":      silent("the platform's choice; it makes no difference to what can be done"),
		"Verified":     {to: true, event: DomainVerified},
		"DKIMEnabled":  {to: true, event: DomainDKIMEnabled},
		"MailReady":    silent(internal),
		"Verification": silent("a read of the domain shows the records to publish"),
		"Service":      silent("a read of the domain shows the records to publish"),
		"Signing":      silent("a read of the domain shows the records to publish"),
		"Status":       silent("what a read found; Health says whether that is a change"),
		"Health":       {to: domain.Health{Drifted: []domain.Drift{domain.MXMoved}}, event: DomainHealthChanged},
		"CheckedAt":    silent("a read that finds nothing new is no news"),
		"CreatedAt":    silent(identity),
		"MissingSince": silent("a replica may lag; the domain is removed when it is missed again"),
		"Observed":     silent(internal),
	})
	vanished := func(before, after mailbox.Mailbox) []Event { return OfMailbox(before, after, MailboxVanished) }
	checkFields(t, mailbox.Mailbox{ID: "m", TenantGUID: "t", Stage: mailbox.Created}, vanished, map[string]field{
		"ID": silent(identity), "TenantGUID": silent(identity), "DomainID": silent(identity), "Address": silent(identity),
		"Stage":        {to: mailbox.Ready, event: MailboxUpdated}, // the mailbox's password and sign-in are set
		"JustReserved": silent(unstored), "ReservedAt": silent(internal),
		"Provisioned":    silent("set when the mailbox is created"),
		"ObjectID":       silent(internal),
		"DisplayName":    {to: "Ada", event: MailboxUpdated},
		"PrincipalName":  {to: "ada@example.com", event: MailboxUpdated},
		"Alias":          {to: "ada", event: MailboxUpdated},
		"AccountEnabled": {to: true, event: MailboxUpdated},
		"DailySendLimit": {to: 5, event: MailboxUpdated},
		"SendsToday":     silent("a count; the usage shows it, and a block is an event"),
		"SendsTodayAt":   silent("a count; the usage shows it, and a block is an event"),
		"BlockedAt":      silent("OfBlock returns the event, with the count and the limit"),
		"CreatedAt":      silent(identity), "DomainName": silent(identity),
		"TenantName":   silent("belongs to the tenant"),
		"MissingSince": silent("a replica may lag; the mailbox vanishes when it is missed again"),
		"Observed":     silent(internal),
	})
	checkFields(t, provisioning.Job{ID: "j", Status: provisioning.Running}, OfJob, map[string]field{
		"ID": silent(identity), "RunID": silent(identity), "Account": silent(identity), "DomainID": silent(identity),
		"TenantGUID": silent(identity), "DomainName": silent(identity), "CreatedAt": silent(identity),
		"Stage":    silent("progress; a job that waits for a person or fails is an event, and so is the end of its run"),
		"Status":   {to: provisioning.Failed, event: DNSJobFailed},
		"Next":     silent(internal),
		"Provider": silent("found once, by the first plan"),
		"Required": silent("only with the status action_required, see TestChangedActionOfJobIsEvent"),
		"Message":  silent("a sentence about the status"), "NextAttemptAt": silent("progress"),
		"Epoch": silent(internal), "Trace": silent(internal), "Progress": silent(internal),
		"StartedAt": silent("progress"), "EndedAt": silent("set with the status"), "UpdatedAt": silent("progress"),
	})
	checkFields(t, integration.Integration{ID: "i", Status: integration.Connected}, OfIntegration, map[string]field{
		"ID": {to: "", event: IntegrationRemoved}, "AccountID": silent(identity), "Provider": silent(identity),
		"Name":             silent("given when it is created"),
		"Workspace":        silent("given when it is created; a later name of it is a label"),
		"Status":           {to: integration.Failed, event: IntegrationCredentialRejected},
		"HasError":         silent("a refresh failed, which the next one repeats; a rejected credential is an event"),
		"CredentialFields": silent("given when it is created"), "LastTestedAt": silent("a test that finds nothing new is no news"),
		"RefreshedAt": silent("a refresh that finds nothing new is no news"), "CreatedAt": silent(identity), "UpdatedAt": silent("set with the others"),
		"Observed": silent(internal),
	})
	expired := func(before, after integration.Connection) []Event { return OfConnection("t", before, after) }
	checkFields(t, integration.Connection{ID: "c", Status: integration.ConnectionConnected}, expired, map[string]field{
		"ID": {to: "", event: ConnectionDisconnected}, "IntegrationID": silent(identity), "MailboxID": silent(identity),
		"Status":    {to: integration.ConnectionFailed, event: ConnectionExpired},
		"AccountID": silent("describes the platform's account"), "AccountAddress": silent("describes the platform's account"), "AccountName": silent("describes the platform's account"),
		"HasError": silent("the platform reports a problem while it can still sign in"),
		"Reason":   silent("explains the status"), "ConnectedAt": silent("set with the status"), "UpdatedAt": silent("set with the others"),
	})
	checkFields(t, sendlimit.Policy{ID: "p", PerDay: 5}, OfPolicy, map[string]field{
		"ID": silent(identity), "Tenant": silent(identity), "Scope": silent(identity),
		"PerDay": {to: 9, event: PolicySet},
		"RuleID": silent("the rule follows the limit"), "RuleName": silent("the rule follows the limit"),
		"CreatedAt": silent(identity), "UpdatedAt": silent("set with the limit"),
	})
	checkFields(t, access.Key{ID: "k"}, OfKey, map[string]field{
		"ID": silent(identity), "Account": silent(identity), "Form": silent(identity), "CreatedAt": silent(identity),
		"Bounds": silent("given when it is created"), "CreatedBy": silent(identity),
		"Hash": silent("a fresh secret is a rotation, see OfRotation"), "Hint": silent("a fresh secret is a rotation, see OfRotation"),
		"Name":       silent("given when it is created"),
		"RevokedAt":  {to: later, event: KeyRevoked},
		"LastUsedAt": silent("a request is no change"),
	})
	checkFields(t, webhook.Webhook{ID: "w", Status: webhook.Enabled}, webhookEvents, map[string]field{
		"ID": silent(identity), "Account": silent(identity), "CreatedAt": silent(identity), "Tenants": silent("given when it is created"),
		"URL": silent(setting), "Types": silent(setting), "Description": silent(setting), "Secrets": silent(setting),
		"Status":       {to: webhook.Disabled, event: WebhookDisabled},
		"FailingSince": silent("a failed try is in the list of deliveries; a webhook that fails for too long is disabled"),
	})
}

// TestObjectsWithoutEvents lists the objects of an account that are the subject of no event. A new
// field must be listed with the reason why its change has no event.
func TestObjectsWithoutEvents(t *testing.T) {
	checkFields(t, tenant.ConnectSession{ID: "s"}, noEvents, map[string]field{
		"ID": silent(identity), "Lifetime": silent("given when it is created"), "ReturnURL": silent("given when it is created"), "State": silent("given when it is created"),
		"Status":    silent("a session that is connected is the event tenant.connected; another end is known to the person who uses the link"),
		"Tenant":    silent("the tenant has its own event"),
		"ExpiresAt": silent("set with a new link, which is the answer of a request"),
	})
	checkFields(t, access.Account{ID: "a"}, noEvents, map[string]field{
		"ID": silent(identity), "CreatedAt": silent(identity), "Email": silent(operated), "Plan": silent(operated), "Active": silent(operated), "OwnSlots": silent(operated),
		"ClosedAt": silent("the log of a closed account is deleted"), "TenantCount": silent("a count; the tenants have their own events"),
	})
	checkFields(t, access.Settings{}, noEvents, map[string]field{
		"DisplayName": silent(operated), "SupportURL": silent(operated), "ReturnHosts": silent(operated),
	})
	checkFields(t, dnsconnection.Connection{ID: "c"}, noEvents, map[string]field{
		"ID": silent(identity), "AccountID": silent(identity), "Provider": silent(identity), "CreatedAt": silent(identity), "Name": silent("given when it is created"),
		"Status":       silent("found by a test that the operator runs; a job that the credential stops is the event dns_job.action_required"),
		"ZonesVisible": silent("found by a test that the operator runs"), "TestedAt": silent("found by a test that the operator runs"),
	})
}

func noEvents[T any](_, _ T) []Event { return nil }

// webhookEvents returns the events of a change of a webhook, as the store emits them.
func webhookEvents(before, after webhook.Webhook) []Event {
	if before.Status != after.Status && after.Status == webhook.Disabled {
		return []Event{webhook.DisabledEvent(after.ID, webhook.ReasonRequested)}
	}
	return nil
}

// tenantEvents returns all events of a change of a tenant, as the store emits them.
func tenantEvents(before, after tenant.Tenant) []Event {
	all := OfTenant(before, after)
	if before.Readiness(true) != after.Readiness(true) {
		all = append(all, OfReadiness(after.GUID, after.Readiness(true)))
	}
	return all
}

// checkFields changes each field of base, and compares the events with the table.
func checkFields[T any](t *testing.T, base T, eventsOf func(before, after T) []Event, fields map[string]field) {
	t.Helper()
	kind := reflect.TypeFor[T]()
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		f, listed := fields[name]
		delete(fields, name)
		if !listed {
			t.Errorf("%s.%s is new: list the event of its change, or the reason why there is none", kind, name)
			continue
		}
		after := base
		target := reflect.ValueOf(&after).Elem().Field(i)
		if f.event == "" {
			change(target)
		} else {
			target.Set(reflect.ValueOf(f.to))
		}
		var types []Type
		for _, e := range eventsOf(base, after) {
			types = append(types, e.Type)
		}
		if f.event != "" && !slices.Contains(types, f.event) || f.event == "" && (len(types) > 0 || f.reason == "") {
			t.Errorf("%s.%s: a change leads to %q; listed are %q and the reason %q", kind, name, types, f.event, f.reason)
		}
	}
	for name := range fields {
		t.Errorf("%s has no field %s", kind, name)
	}
}

// change sets a field to a value that differs from every value of the tests.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("changed")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Array:
		change(v.Index(0))
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(later))
			return
		}
		change(v.Field(0))
	default:
		panic("no other value of " + v.Type().String())
	}
}

func TestNextStepIsPartOfReadiness(t *testing.T) {
	verified := tenant.Tenant{GUID: "t", Consent: tenant.ConsentGranted, Bootstrap: tenant.BootstrapReady, SMTPAuth: tenant.SMTPAuthEnabled,
		Discovery: tenant.DiscoveryCompleted, DomainCount: 1, DomainsVerified: 1}
	signed := verified
	signed.DomainsSigned = 1
	all := tenantEvents(verified, signed)
	if len(all) != 1 || *all[0].Data.(ReadinessData).NextStep != tenant.NextCreateMailboxes {
		t.Errorf("a signed domain leads to %+v", all)
	}
	unpublished := verified
	unpublished.DomainsVerified = 0
	published := unpublished
	published.DomainsAwaitingVerification = 1
	if all := tenantEvents(unpublished, published); len(all) != 1 || *all[0].Data.(ReadinessData).NextStep != tenant.NextVerifyDomain {
		t.Errorf("a published record leads to %+v", all)
	}
}

func TestChangedActionOfJobIsEvent(t *testing.T) {
	job := provisioning.Job{ID: "j", Status: provisioning.ActionRequired, Required: dns.ActionRequired("dns_conflict")}
	other := job
	other.Required = dns.ActionRequired("dns_changed")
	for _, c := range []struct {
		before, after provisioning.Job
		want          []Type
	}{
		{provisioning.Job{ID: "j", Status: provisioning.Running}, job, []Type{DNSJobActionRequired}},
		{job, other, []Type{DNSJobActionRequired}},
		{job, job, nil},
		{job, provisioning.Job{ID: "j", Status: provisioning.Queued}, nil},
	} {
		if got := typesOf(OfJob(c.before, c.after)); !slices.Equal(got, c.want) {
			t.Errorf("from %s %s to %s %s: %q", c.before.Status, c.before.Required, c.after.Status, c.after.Required, got)
		}
	}
}

func typesOf(all []Event) (types []Type) {
	for _, e := range all {
		types = append(types, e.Type)
	}
	return types
}

func TestRunIsCompletedWithItsLastJob(t *testing.T) {
	run := provisioning.Run{ID: "r", TotalDomains: 2}
	jobs := func(all ...provisioning.Status) (list []provisioning.Job) {
		for _, status := range all {
			list = append(list, provisioning.Job{RunID: "r", TenantGUID: "t", Status: status})
		}
		return list
	}
	for _, c := range []struct {
		before, after []provisioning.Job
		want          string
	}{
		{jobs(provisioning.Running, provisioning.Completed), jobs(provisioning.Completed, provisioning.Completed), "completed"},
		{jobs(provisioning.Running, provisioning.Completed), jobs(provisioning.Failed, provisioning.Completed), "failed"},
		{jobs(provisioning.Running, provisioning.Waiting), jobs(provisioning.Completed, provisioning.Waiting), ""},
		{jobs(provisioning.Completed, provisioning.Completed), jobs(provisioning.Completed), ""}, // a deletion
		{jobs(provisioning.Running), nil, ""}, // the run was deleted
	} {
		all, got := OfRun(run, c.before, c.after), ""
		if len(all) == 1 {
			got = all[0].Data.(RunData).Status
		}
		if got != c.want {
			t.Errorf("%v, then %v: %+v", c.before, c.after, all)
		}
	}
}

func TestConnectionsConnectExpireAndDisconnect(t *testing.T) {
	for _, c := range []struct {
		before, after integration.ConnectionStatus
		want          []Type
	}{
		{"", integration.ConnectionPending, nil},
		{integration.ConnectionPending, integration.ConnectionConnected, []Type{ConnectionConnected}},
		{integration.ConnectionConnected, integration.ConnectionFailed, []Type{ConnectionExpired}},
		{integration.ConnectionConnected, integration.ConnectionDisconnecting, nil},
		{integration.ConnectionDisconnecting, integration.ConnectionDisconnected, []Type{ConnectionDisconnected}},
		{integration.ConnectionPending, integration.ConnectionFailed, nil},
		{integration.ConnectionFailed, integration.ConnectionConnected, []Type{ConnectionConnected}},
		{integration.ConnectionDisconnected, "", nil}, // a deletion
		{integration.ConnectionConnected, "", []Type{ConnectionDisconnected}},
	} {
		of := func(s integration.ConnectionStatus) integration.Connection {
			if s == "" {
				return integration.Connection{}
			}
			return integration.Connection{ID: "c", Status: s}
		}
		if got := typesOf(OfConnection("t", of(c.before), of(c.after))); !slices.Equal(got, c.want) {
			t.Errorf("from %q to %q: %q", c.before, c.after, got)
		}
	}
}
