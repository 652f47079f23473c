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

var changedAt = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// field describes a change of one field of an object. The change to newValue causes the event. If
// event is empty, the change causes no event, and reason says why.
type field struct {
	newValue any
	event    Type
	reason   string
}

func noEvent(reason string) field { return field{reason: reason} }

const (
	identity        = "never changes after the creation of the object"
	derived         = "derived from other objects; a part of the readiness"
	unstored        = "not stored"
	internal        = "no caller sees the field"
	ownSetting      = "a setting that the account itself changes; the audit log records it"
	operatorSetting = "the operator changes it; the audit log of the account records it"
)

// TestEveryFieldHasEventOrReason changes each field of the objects that are the subjects of events,
// except runs. A new field must be listed with the event of its change, or with the reason why its
// change has no event.
func TestEveryFieldHasEventOrReason(t *testing.T) {
	checkFields(t, tenant.Tenant{GUID: "t", Consent: tenant.ConsentGranted}, tenantEvents, map[string]field{
		"ID": noEvent(identity), "GUID": noEvent(identity),
		"Name":                        noEvent("the platform's label; the next event of the tenant shows it"),
		"BuiltinDomain":               noEvent("the platform's label; the next event of the tenant shows it"),
		"DefaultDomain":               noEvent("the platform's choice among the domains, which have events of their own"),
		"Managed":                     noEvent("set when the tenant is assigned, which connects it"),
		"Consent":                     {newValue: tenant.ConsentRevoked, event: TenantAccessLost},
		"ConsentedAt":                 noEvent("a repeated consent changes nothing while the earlier one works"),
		"ConnectedBy":                 noEvent("set with ConsentedAt"),
		"Bootstrap":                   {newValue: tenant.BootstrapReady, event: TenantReadinessChanged},
		"BootstrapStep":               {newValue: tenant.StepGrantRole, event: TenantReadinessChanged},
		"SMTPAuth":                    {newValue: tenant.SMTPAuthEnabled, event: TenantReadinessChanged},
		"Discovery":                   {newValue: tenant.DiscoveryCompleted, event: TenantReadinessChanged},
		"LastSyncAt":                  noEvent("changes with each sync, even if the sync finds nothing new"),
		"UserMailboxes":               noEvent("a count that includes mailboxes which the service does not manage"),
		"DomainCount":                 {newValue: 1, event: TenantReadinessChanged},
		"DomainsVerified":             {newValue: 1, event: TenantReadinessChanged},
		"DomainsSigned":               noEvent(derived + "; it decides the next step, see TestNextStepIsPartOfReadiness"),
		"DomainsAwaitingVerification": noEvent(derived + "; it decides the next step, see TestNextStepIsPartOfReadiness"),
		"MailboxCount":                {newValue: 1, event: TenantReadinessChanged},
		"Observed":                    noEvent(internal),
	})
	checkFields(t, domain.Domain{ID: "d", TenantGUID: "t", Added: true}, OfDomain, map[string]field{
		"ID": noEvent(identity), "TenantID": noEvent(identity), "TenantGUID": noEvent(identity), "Name": noEvent(identity),
		"Added":        {newValue: false, event: DomainRemoved},
		"JustReserved": noEvent(unstored), "ReservedAt": noEvent(internal), "PreviousReservedAt": noEvent(internal),
		"Default":      noEvent("the platform's choice; it makes no difference to what can be done"),
		"Verified":     {newValue: true, event: DomainVerified},
		"DKIMEnabled":  {newValue: true, event: DomainDKIMEnabled},
		"MailReady":    noEvent(internal),
		"Verification": noEvent("a read of the domain shows the records to publish"),
		"Service":      noEvent("a read of the domain shows the records to publish"),
		"Signing":      noEvent("a read of the domain shows the records to publish"),
		"Status":       noEvent("the result of a read; Health says whether it is a change"),
		"Health":       {newValue: domain.Health{Drifted: []domain.Drift{domain.MXMoved}}, event: DomainHealthChanged},
		"CheckedAt":    noEvent("changes with each read, even if the read finds nothing new"),
		"CreatedAt":    noEvent(identity),
		"MissingSince": noEvent("a replica may lag; the domain is removed when it is missed again"),
		"Observed":     noEvent(internal),
	})
	mailboxEvents := func(before, after mailbox.Mailbox) []Event { return OfMailbox(before, after, MailboxVanished) }
	checkFields(t, mailbox.Mailbox{ID: "m", TenantGUID: "t", Stage: mailbox.Created}, mailboxEvents, map[string]field{
		"ID": noEvent(identity), "TenantGUID": noEvent(identity), "DomainID": noEvent(identity), "Address": noEvent(identity),
		"Stage":        {newValue: mailbox.Ready, event: MailboxUpdated}, // the mailbox's password and sign-in are set
		"JustReserved": noEvent(unstored), "ReservedAt": noEvent(internal),
		"Provisioned":    noEvent("set when the mailbox is created"),
		"ObjectID":       noEvent(internal),
		"DisplayName":    {newValue: "Ada", event: MailboxUpdated},
		"PrincipalName":  {newValue: "ada@example.com", event: MailboxUpdated},
		"Alias":          {newValue: "ada", event: MailboxUpdated},
		"AccountEnabled": {newValue: true, event: MailboxUpdated},
		"DailySendLimit": {newValue: 5, event: MailboxUpdated},
		"SendsToday":     noEvent("a count; the usage shows it, and a block causes an event"),
		"SendsTodayAt":   noEvent("a count; the usage shows it, and a block causes an event"),
		"BlockedAt":      noEvent("OfBlock returns the event, with the count and the limit"),
		"CreatedAt":      noEvent(identity), "DomainName": noEvent(identity),
		"TenantName":   noEvent("belongs to the tenant"),
		"MissingSince": noEvent("a replica may lag; the mailbox vanishes when it is missed again"),
		"Observed":     noEvent(internal),
	})
	checkFields(t, provisioning.Job{ID: "j", Status: provisioning.Running}, OfJob, map[string]field{
		"ID": noEvent(identity), "RunID": noEvent(identity), "Account": noEvent(identity), "DomainID": noEvent(identity),
		"TenantGUID": noEvent(identity), "DomainName": noEvent(identity), "CreatedAt": noEvent(identity),
		"Stage":          noEvent("progress; a job that requires an action or fails causes an event, and so does the end of its run"),
		"Status":         {newValue: provisioning.Failed, event: DNSJobFailed},
		"Next":           noEvent(internal),
		"Provider":       noEvent("found once, by the first plan"),
		"RequiredAction": noEvent("only with the status action_required, see TestChangedActionOfJobIsEvent"),
		"Message":        noEvent("a sentence about the status"), "NextAttemptAt": noEvent("progress"),
		"Epoch": noEvent(internal), "Trace": noEvent(internal), "Progress": noEvent(internal),
		"StartedAt": noEvent("progress"), "EndedAt": noEvent("set with the status"), "UpdatedAt": noEvent("progress"),
	})
	checkFields(t, integration.Integration{ID: "i", Status: integration.Connected}, OfIntegration, map[string]field{
		"ID": {newValue: "", event: IntegrationRemoved}, "AccountID": noEvent(identity), "Provider": noEvent(identity),
		"Name":             noEvent("set at creation"),
		"Workspace":        noEvent("set at creation; a later name is only a label"),
		"Status":           {newValue: integration.Failed, event: IntegrationCredentialRejected},
		"HasError":         noEvent("the next refresh tries again; a rejected credential causes an event"),
		"CredentialFields": noEvent("set at creation"), "LastTestedAt": noEvent("changes with each test, even if the test finds nothing new"),
		"RefreshedAt": noEvent("changes with each refresh, even if the refresh finds nothing new"), "CreatedAt": noEvent(identity), "UpdatedAt": noEvent("set with the other fields"),
		"Observed": noEvent(internal),
	})
	connectionEvents := func(before, after integration.Connection) []Event { return OfConnection("t", before, after) }
	checkFields(t, integration.Connection{ID: "c", Status: integration.ConnectionConnected}, connectionEvents, map[string]field{
		"ID": {newValue: "", event: ConnectionDisconnected}, "IntegrationID": noEvent(identity), "MailboxID": noEvent(identity),
		"Status":            {newValue: integration.ConnectionFailed, event: ConnectionExpired},
		"PlatformAccountID": noEvent("describes the platform's account"), "PlatformAccountAddress": noEvent("describes the platform's account"), "PlatformAccountName": noEvent("describes the platform's account"),
		"HasError": noEvent("the platform reports a problem while it can still sign in"),
		"Reason":   noEvent("explains the status"), "ConnectedAt": noEvent("set with the status"), "UpdatedAt": noEvent("set with the other fields"),
	})
	checkFields(t, sendlimit.Policy{ID: "p", PerDay: 5}, OfPolicy, map[string]field{
		"ID": noEvent(identity), "Tenant": noEvent(identity), "Scope": noEvent(identity),
		"PerDay": {newValue: 9, event: PolicySet},
		"RuleID": noEvent("the rule follows the limit"), "RuleName": noEvent("the rule follows the limit"),
		"CreatedAt": noEvent(identity), "UpdatedAt": noEvent("set with the limit"),
	})
	checkFields(t, access.Key{ID: "k"}, OfKey, map[string]field{
		"ID": noEvent(identity), "Account": noEvent(identity), "CreatedAt": noEvent(identity),
		"Bounds": noEvent("set at creation"), "CreatedBy": noEvent(identity),
		"Hash": noEvent("a fresh secret is a rotation, see OfRotation"), "Hint": noEvent("a fresh secret is a rotation, see OfRotation"),
		"Form":       noEvent("a fresh secret is a rotation, see OfRotation"),
		"Name":       noEvent("set at creation"),
		"RevokedAt":  {newValue: changedAt, event: KeyRevoked},
		"LastUsedAt": noEvent("changes with the requests that use the key"),
	})
	checkFields(t, webhook.Webhook{ID: "w", Status: webhook.Enabled}, webhookEvents, map[string]field{
		"ID": noEvent(identity), "Account": noEvent(identity), "CreatedAt": noEvent(identity), "Tenants": noEvent("set at creation"),
		"URL": noEvent(ownSetting), "Types": noEvent(ownSetting), "Description": noEvent(ownSetting), "Secrets": noEvent(ownSetting),
		"Status":       {newValue: webhook.Disabled, event: WebhookDisabled},
		"FailingSince": noEvent("a failed try is in the list of deliveries; a webhook that fails for too long is disabled"),
	})
}

// TestFieldsOfObjectsWithoutEventsHaveReasons lists objects of an account that are the subject of
// no event. A new field must be listed with the reason why its change has no event.
func TestFieldsOfObjectsWithoutEventsHaveReasons(t *testing.T) {
	checkFields(t, tenant.ConnectSession{ID: "s"}, noEvents, map[string]field{
		"ID": noEvent(identity), "Lifetime": noEvent("set at creation"), "ReturnURL": noEvent("set at creation"), "State": noEvent("set at creation"),
		"Status":    noEvent("a connected session causes the event tenant.connected; the person who uses the link sees every other end"),
		"Tenant":    noEvent("the tenant has its own event"),
		"ExpiresAt": noEvent("set with a new link, which is the answer of a request"),
	})
	checkFields(t, access.Account{ID: "a"}, noEvents, map[string]field{
		"ID": noEvent(identity), "CreatedAt": noEvent(identity), "Email": noEvent(operatorSetting), "Plan": noEvent(operatorSetting), "Active": noEvent(operatorSetting), "OwnSlots": noEvent(operatorSetting),
		"ClosedAt": noEvent("the log of a closed account is deleted"), "TenantCount": noEvent("a count; the tenants have their own events"),
	})
	checkFields(t, access.Settings{}, noEvents, map[string]field{
		"DisplayName": noEvent(operatorSetting), "SupportURL": noEvent(operatorSetting), "ReturnHosts": noEvent(operatorSetting),
	})
	checkFields(t, dnsconnection.Connection{ID: "c"}, noEvents, map[string]field{
		"ID": noEvent(identity), "AccountID": noEvent(identity), "Provider": noEvent(identity), "CreatedAt": noEvent(identity), "Name": noEvent("set at creation"),
		"Status":       noEvent("found by a test that the operator runs; a job that the credential stops causes the event dns_job.action_required"),
		"ZonesVisible": noEvent("found by a test that the operator runs"), "TestedAt": noEvent("found by a test that the operator runs"),
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
	events := OfTenant(before, after)
	if before.Readiness(true) != after.Readiness(true) {
		events = append(events, OfReadiness(after.GUID, after.Readiness(true)))
	}
	return events
}

// checkFields changes each field of base and compares the events of the change with the expected
// events in fields.
func checkFields[T any](t *testing.T, base T, eventsOf func(before, after T) []Event, fields map[string]field) {
	t.Helper()
	objectType := reflect.TypeFor[T]()
	for index := range objectType.NumField() {
		name := objectType.Field(index).Name
		expected, listed := fields[name]
		delete(fields, name)
		if !listed {
			t.Errorf("%s.%s is new: list the event of its change, or the reason why its change has no event", objectType, name)
			continue
		}
		after := base
		target := reflect.ValueOf(&after).Elem().Field(index)
		if expected.event == "" {
			setOtherValue(target)
		} else {
			target.Set(reflect.ValueOf(expected.newValue))
		}
		types := typesOf(eventsOf(base, after))
		if expected.event != "" && !slices.Contains(types, expected.event) || expected.event == "" && (len(types) > 0 || expected.reason == "") {
			t.Errorf("%s.%s: a change leads to the events %q, want the event %q, or none for the reason %q", objectType, name, types, expected.event, expected.reason)
		}
	}
	for name := range fields {
		t.Errorf("%s has no field %s", objectType, name)
	}
}

func setOtherValue(v reflect.Value) {
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
		setOtherValue(v.Index(0))
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(changedAt))
			return
		}
		setOtherValue(v.Field(0))
	default:
		panic("no other value of " + v.Type().String())
	}
}

// TestMailboxIsCreatedAndRemovedOnce checks the events when the stage of a mailbox changes. If a
// sync misses the mailbox and a request reserves its address again, the row of the mailbox stays.
func TestMailboxIsCreatedAndRemovedOnce(t *testing.T) {
	mailboxWith := func(stage mailbox.Stage, objectID string, missed time.Time) mailbox.Mailbox {
		return mailbox.Mailbox{ID: "m", Stage: stage, ObjectID: objectID, Observed: mailbox.Observed{PreviousMissingSince: missed}}
	}
	never := time.Time{}
	for _, tc := range []struct {
		name          string
		before, after mailbox.Mailbox
		want          []Type
	}{
		{"a new mailbox is found", mailbox.Mailbox{}, mailboxWith(mailbox.Ready, "1", never), []Type{MailboxCreated}},
		{"a new mailbox is created", mailboxWith(mailbox.Creating, "", never), mailboxWith(mailbox.Created, "1", never), []Type{MailboxCreated}},
		{"a discovery stored the object of a new mailbox first", mailboxWith(mailbox.Creating, "1", never), mailboxWith(mailbox.Created, "1", never), []Type{MailboxCreated}},
		{"a missed mailbox is reserved again", mailboxWith(mailbox.Ready, "1", never), mailboxWith(mailbox.Reserved, "1", changedAt), nil},
		{"a request is about to create the reserved mailbox", mailboxWith(mailbox.Reserved, "1", changedAt), mailboxWith(mailbox.Creating, "1", changedAt), nil},
		{"the mailbox is found after its reservation", mailboxWith(mailbox.Reserved, "1", changedAt), mailboxWith(mailbox.Ready, "1", never), nil},
		{"the request that creates the mailbox finds the earlier one", mailboxWith(mailbox.Creating, "1", changedAt), mailboxWith(mailbox.Created, "1", never), []Type{MailboxUpdated}},
		{"the request creates a new mailbox", mailboxWith(mailbox.Creating, "1", changedAt), mailboxWith(mailbox.Created, "2", never), []Type{MailboxCreated}},
		{"a reservation without a mailbox is found after a miss", mailboxWith(mailbox.Reserved, "", changedAt), mailboxWith(mailbox.Ready, "1", never), []Type{MailboxCreated}},
		{"a mailbox is deleted", mailboxWith(mailbox.Ready, "1", never), mailbox.Mailbox{}, []Type{MailboxVanished}},
		{"a missed mailbox is deleted", mailboxWith(mailbox.Reserved, "1", changedAt), mailbox.Mailbox{}, []Type{MailboxVanished}},
		{"a reservation is deleted", mailboxWith(mailbox.Reserved, "", never), mailbox.Mailbox{}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := typesOf(OfMailbox(tc.before, tc.after, MailboxVanished)); !slices.Equal(got, tc.want) {
				t.Fatalf("the events are %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNextStepIsPartOfReadiness(t *testing.T) {
	verified := tenant.Tenant{GUID: "t", Consent: tenant.ConsentGranted, Bootstrap: tenant.BootstrapReady, SMTPAuth: tenant.SMTPAuthEnabled,
		Discovery: tenant.DiscoveryCompleted, DomainCount: 1, DomainsVerified: 1}
	signed := verified
	signed.DomainsSigned = 1
	events := tenantEvents(verified, signed)
	if len(events) != 1 || *events[0].Data.(ReadinessData).NextStep != tenant.NextCreateMailboxes {
		t.Errorf("a signed domain leads to the events %+v, want one event with the next step %s", events, tenant.NextCreateMailboxes)
	}
	unpublished := verified
	unpublished.DomainsVerified = 0
	published := unpublished
	published.DomainsAwaitingVerification = 1
	if events := tenantEvents(unpublished, published); len(events) != 1 || *events[0].Data.(ReadinessData).NextStep != tenant.NextVerifyDomain {
		t.Errorf("a published record leads to the events %+v, want one event with the next step %s", events, tenant.NextVerifyDomain)
	}
}

func TestChangedActionOfJobIsEvent(t *testing.T) {
	job := provisioning.Job{ID: "j", Status: provisioning.ActionRequired, RequiredAction: dns.ActionRequired("dns_conflict")}
	jobWithOtherAction := job
	jobWithOtherAction.RequiredAction = dns.ActionRequired("dns_changed")
	for _, tc := range []struct {
		before, after provisioning.Job
		want          []Type
	}{
		{provisioning.Job{ID: "j", Status: provisioning.Running}, job, []Type{DNSJobActionRequired}},
		{job, jobWithOtherAction, []Type{DNSJobActionRequired}},
		{job, job, nil},
		{job, provisioning.Job{ID: "j", Status: provisioning.Queued}, nil},
	} {
		if got := typesOf(OfJob(tc.before, tc.after)); !slices.Equal(got, tc.want) {
			t.Errorf("from %s %s to %s %s: got %q, want %q", tc.before.Status, tc.before.RequiredAction, tc.after.Status, tc.after.RequiredAction, got, tc.want)
		}
	}
}

func typesOf(events []Event) (types []Type) {
	for _, e := range events {
		types = append(types, e.Type)
	}
	return types
}

func TestRunIsCompletedWithItsLastJob(t *testing.T) {
	run := provisioning.Run{ID: "r", TotalDomains: 2}
	jobs := func(statuses ...provisioning.Status) (list []provisioning.Job) {
		for _, status := range statuses {
			list = append(list, provisioning.Job{RunID: "r", TenantGUID: "t", Status: status})
		}
		return list
	}
	for _, tc := range []struct {
		before, after []provisioning.Job
		want          string
	}{
		{jobs(provisioning.Running, provisioning.Completed), jobs(provisioning.Completed, provisioning.Completed), "completed"},
		{jobs(provisioning.Running, provisioning.Completed), jobs(provisioning.Failed, provisioning.Completed), "failed"},
		{jobs(provisioning.Running, provisioning.Waiting), jobs(provisioning.Completed, provisioning.Waiting), ""},
		{jobs(provisioning.Completed, provisioning.Completed), jobs(provisioning.Completed), ""}, // a deletion
		{jobs(provisioning.Running), nil, ""}, // the run was deleted
	} {
		events, got := OfRun(run, tc.before, tc.after), ""
		if len(events) == 1 {
			got = events[0].Data.(RunData).Status
		}
		if got != tc.want {
			t.Errorf("from %v to %v: got %+v, want the status %q", tc.before, tc.after, events, tc.want)
		}
	}
}

func TestConnectionsConnectExpireAndDisconnect(t *testing.T) {
	for _, tc := range []struct {
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
		{integration.ConnectionPending, integration.ConnectionDisconnected, nil}, // without an account
		{integration.ConnectionPending, "", []Type{ConnectionDisconnected}},
	} {
		connectionWith := func(status integration.ConnectionStatus) integration.Connection {
			if status == "" {
				return integration.Connection{}
			}
			return integration.Connection{ID: "c", Status: status}
		}
		if got := typesOf(OfConnection("t", connectionWith(tc.before), connectionWith(tc.after))); !slices.Equal(got, tc.want) {
			t.Errorf("from %q to %q: got %q, want %q", tc.before, tc.after, got, tc.want)
		}
	}
}
