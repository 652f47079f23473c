// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// auditEvents returns the audit events that match a query, newest first. The default limit is 100.
func auditEvents(t testing.TB, s *Store, query ports.AuditQuery) []audit.Event {
	t.Helper()
	query.Limit = cmp.Or(query.Limit, 100)
	found, err := s.AuditEvents(t.Context(), query)
	must(t, "list audit events", err)
	return found
}

// recordedActions returns the audit events of an account, oldest first, without the first
// eventsBefore events, which the test's preparation recorded.
func recordedActions(t testing.TB, s *Store, owner access.AccountID, eventsBefore int) []audit.Event {
	t.Helper()
	events := auditEvents(t, s, ports.AuditQuery{Account: owner})
	slices.Reverse(events)
	if len(events) < eventsBefore {
		t.Fatalf("got %d events, want at least %d: %+v", len(events), eventsBefore, events)
	}
	return events[eventsBefore:]
}

// operatorActions are actions on a new account, with the audit events that each must record.
var operatorActions = []struct {
	name            string
	perform         func(t testing.TB, s *Store, owner access.AccountID)
	wantActions     []audit.Action
	wantLastDetails map[string]string // details of the last event
}{
	{"create key", func(t testing.TB, s *Store, owner access.AccountID) { newKey(t, s, owner, 1) }, []audit.Action{audit.CreateKey},
		map[string]string{"key_id": apiKey("", 1).ID, "key_hint": "abcd", "form": "live", "name": "laptop"}},
	{"revoke key", func(t testing.TB, s *Store, owner access.AccountID) {
		key := newKey(t, s, owner, 1)
		for range 2 { // the second revocation is not recorded
			_, err := s.RevokeKey(t.Context(), key.ID, now)
			must(t, "revoke", err)
		}
	}, []audit.Action{audit.CreateKey, audit.RevokeKey}, map[string]string{"key_id": apiKey("", 1).ID, "key_hint": "abcd", "form": "live", "name": "laptop"}},
	{"rotate key", func(t testing.TB, s *Store, owner access.AccountID) {
		_, err := s.ReplaceKey(t.Context(), newKey(t, s, owner, 1).ID, apiKey("", 2))
		must(t, "replace", err)
	}, []audit.Action{audit.CreateKey, audit.RotateKey},
		map[string]string{"key_id": apiKey("", 2).ID, "replaced_key_id": apiKey("", 1).ID, "key_hint": "abcd", "form": "live", "name": "laptop"}},
	{"change plan", func(t testing.TB, s *Store, owner access.AccountID) {
		_, err := s.ChangePlan(t.Context(), owner, "api_starter", 3)
		must(t, "change plan", err)
	}, []audit.Action{audit.ChangePlan},
		map[string]string{"plan": "api_starter", "tenant_slots": "3", "plan_before": "complete", "tenant_slots_before": "100"}},
	{"suspend and resume", func(t testing.TB, s *Store, owner access.AccountID) {
		for _, active := range []bool{true, false, false, true} { // setting the current value is not recorded
			_, err := s.SetActive(t.Context(), owner, active)
			must(t, "set active", err)
		}
	}, []audit.Action{audit.SuspendAccount, audit.ResumeAccount}, map[string]string{"email": "ann@example.test"}},
	{"assign and withdraw", func(t testing.TB, s *Store, owner access.AccountID) {
		assignTenant(t, s, owner, 1)
		_, err := s.Withdraw(t.Context(), guid(1))
		must(t, "withdraw", err)
	}, []audit.Action{audit.AssignTenant, audit.WithdrawTenant},
		map[string]string{"tenant_id": string(guid(1)), "tenant_name": "", "tenant_domain": "", "managed": "true"}},
	{"withdraw with rules left", func(t testing.TB, s *Store, owner access.AccountID) {
		assignTenant(t, s, owner, 1)
		_, err := s.Withdraw(t.Context(), guid(1), "rule 1", hostileText)
		must(t, "withdraw", err)
	}, []audit.Action{audit.AssignTenant, audit.WithdrawTenant},
		map[string]string{"tenant_id": string(guid(1)), "tenant_name": "", "tenant_domain": "", "managed": "true", "rules_left": "rule 1, " + hostileText}},
	{"close with rules left", func(t testing.TB, s *Store, owner access.AccountID) {
		_, err := s.CloseAccount(t.Context(), owner, now, "rule 1", "rule 2")
		must(t, "close", err)
	}, []audit.Action{audit.CloseAccount},
		map[string]string{"email": "ann@example.test", "plan": "complete", "keys_revoked": "0", "tenants_released": "0", "dns_connections_removed": "0",
			"integrations_removed": "0", "rules_left": "rule 1, rule 2"}},
	{"set a tenant's time zone", func(t testing.TB, s *Store, owner access.AccountID) {
		attachTenant(t, s, owner, 1)
		// Setting the current value is not recorded.
		for _, timeZone := range []string{"UTC", "Europe/Berlin", "Europe/Berlin"} {
			_, err := s.SetTimeZone(t.Context(), guid(1), timeZone)
			must(t, "set time zone", err)
		}
	}, []audit.Action{audit.SetTenantDay}, map[string]string{"tenant_id": string(guid(1)), "time_zone": "Europe/Berlin"}},
	{"add and remove DNS connection", func(t testing.TB, s *Store, owner access.AccountID) {
		c := addDNSConnection(t, s, owner, 1)
		must(t, "save test", s.SaveDNSConnectionTest(t.Context(), c)) // a test of a connection is not recorded
		_, err := s.RemoveDNSConnection(t.Context(), c.ID)
		must(t, "remove", err)
	}, []audit.Action{audit.AddDNSConnection, audit.RemoveDNSConnection},
		map[string]string{"connection_id": dnsConnectionID(1), "provider": "cloudflare", "name": hostileText}},
	{"close", func(t testing.TB, s *Store, owner access.AccountID) {
		newKey(t, s, owner, 1)
		addDNSConnection(t, s, owner, 1)
		addIntegration(t, s, owner, 1) // actions of the account itself are not recorded
		addIntegration(t, s, owner, 2)
		attachTenant(t, s, owner, 1)
		for range 2 {
			closeAccount(t, s, owner)
		}
	}, []audit.Action{audit.CreateKey, audit.AddDNSConnection, audit.ReleaseTenant, audit.RevokeKey, audit.RemoveDNSConnection, audit.CloseAccount},
		map[string]string{"email": "ann@example.test", "plan": "complete", "keys_revoked": "1", "tenants_released": "1", "dns_connections_removed": "1",
			"integrations_removed": "2"}},
	{"actions of callers are not recorded", func(t testing.TB, s *Store, owner access.AccountID) {
		must(t, "rotate", s.RotateKey(t.Context(), owner, newKey(t, s, owner, 1).ID, apiKey(owner, 2)))
		attachTenant(t, s, owner, 1)
		must(t, "remove", s.RemoveIntegration(t.Context(), owner, addIntegration(t, s, owner, 1).ID, nil))
		must(t, "delete", s.DeleteTenant(t.Context(), owner, guid(1), nil))
	}, []audit.Action{audit.CreateKey}, map[string]string{"key_id": apiKey("", 1).ID, "key_hint": "abcd", "form": "live", "name": "laptop"}},
	{"refused actions are not recorded", func(t testing.TB, s *Store, owner access.AccountID) {
		_, err := s.CreateAccount(t.Context(), "ann@example.test", "complete", 0, now)
		requireRefusal(t, "create", err, fault.InvalidRequest)
		_, err = s.ChangePlan(t.Context(), owner, "gold", 0)
		requireRefusal(t, "change plan", err, fault.InvalidRequest)
		attachTenant(t, s, owner, 1)
		_, err = s.Attach(t.Context(), owner, tenant.Tenant{GUID: guid(1), Managed: true, ConsentedAt: now})
		requireRefusal(t, "assign", err, fault.TenantHeld)
		_, err = s.Withdraw(t.Context(), guid(1))
		requireRefusal(t, "withdraw", err, fault.TenantNotFound)
	}, nil, nil},
}

func TestOperatorActionsAreRecorded(t *testing.T) {
	for _, tc := range operatorActions {
		t.Run(tc.name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s *Store) {
				ann := newAccount(t, s, "ann")
				tc.perform(t, s, ann)
				got := recordedActions(t, s, ann, 1)
				var actions []audit.Action
				for _, e := range got {
					actions = append(actions, e.Action)
				}
				if !slices.Equal(actions, tc.wantActions) {
					t.Fatalf("the actions are %v, want %v", actions, tc.wantActions)
				}
				if len(got) > 0 && !maps.Equal(got[len(got)-1].Details, tc.wantLastDetails) {
					t.Fatalf("the details of the last event are %v, want %v", got[len(got)-1].Details, tc.wantLastDetails)
				}
			})
		})
	}
}

func TestAuditEventIsStoredWithOperatorTimeAndDetails(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		earliest := time.Now().Truncate(time.Microsecond)
		details := map[string]string{"name": hostileText, "empty": ""}
		must(t, "record", s.RecordAction(t.Context(), audit.AddPlugin, details))
		events := auditEvents(t, s, ports.AuditQuery{})
		if len(events) != 1 {
			t.Fatalf("got %+v, want one event", events)
		}
		e := events[0]
		if e.ID == "" || e.Operator != operator || e.Action != audit.AddPlugin || e.Account != "" || !maps.Equal(e.Details, details) ||
			e.At.Before(earliest) || e.At.After(time.Now()) || e.At.Location() != time.UTC {
			t.Fatalf("got %+v, want the action of the operator with its details and the current time in UTC", e)
		}
	})
}

func TestCreationOfAccountIsItsFirstAuditEvent(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		account, err := s.CreateAccount(t.Context(), "Ann@example.test", "api_starter", 7, now)
		must(t, "create", err)
		got := recordedActions(t, s, account.ID, 0)
		want := map[string]string{"email": "ann@example.test", "plan": "api_starter", "tenant_slots": "7"}
		if len(got) != 1 || got[0].Action != audit.CreateAccount || got[0].Account != account.ID || !maps.Equal(got[0].Details, want) {
			t.Fatalf("got %+v, want one event with the details %v", got, want)
		}
	})
}

func TestAuditEventsAreListedNewestFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		must(t, "record", s.RecordAction(t.Context(), audit.Backup, nil))
		events := auditEvents(t, s, ports.AuditQuery{})
		if len(events) != 3 || events[0].Action != audit.Backup || events[1].Account != bob || events[2].Account != ann {
			t.Fatalf("got %+v, want the backup, bob's account and ann's account", events)
		}
		for name, tc := range map[string]struct {
			query ports.AuditQuery
			want  []audit.Event
		}{
			"of an account":         {ports.AuditQuery{Account: bob}, events[1:2]},
			"of an unknown account": {ports.AuditQuery{Account: "10000000-0000-4000-8000-000000000000"}, nil},
			"since a time":          {ports.AuditQuery{Since: events[1].At}, events[:2]},
			"since a later time":    {ports.AuditQuery{Since: time.Now().Add(time.Hour)}, nil},
			"with a limit":          {ports.AuditQuery{Limit: 2}, events[:2]},
			"of an account, since a time, with a limit": {ports.AuditQuery{Account: ann, Since: events[2].At, Limit: 1}, events[2:]},
			"since an older time":                       {ports.AuditQuery{Since: events[2].At.Add(-time.Hour)}, events},
		} {
			got := auditEvents(t, s, tc.query)
			if !slices.EqualFunc(got, tc.want, func(a, b audit.Event) bool { return a.ID == b.ID }) {
				t.Fatalf("%s: got %+v, want %+v", name, got, tc.want)
			}
		}
	})
}

func TestOnlySuccessfulActionOfConcurrentActionsIsRecorded(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		assignTenant(t, s, ann, 1)
		key := newKey(t, s, ann, 1)
		concurrently(concurrency, func(i int) error {
			switch i % 3 {
			case 0:
				_, _ = s.Withdraw(t.Context(), guid(1))
			case 1:
				_, _ = s.ReplaceKey(t.Context(), key.ID, apiKey("", i+2))
			default:
				_, _ = s.SetActive(t.Context(), ann, false)
			}
			return nil
		})
		counts := map[audit.Action]int{}
		for _, e := range auditEvents(t, s, ports.AuditQuery{}) {
			counts[e.Action]++
		}
		if !maps.Equal(counts, map[audit.Action]int{
			audit.CreateAccount: 1, audit.AssignTenant: 1, audit.CreateKey: 1,
			audit.WithdrawTenant: 1, audit.RotateKey: 1, audit.SuspendAccount: 1,
		}) {
			t.Fatalf("the recorded actions are %v, want one of each kind", counts)
		}
	})
}

func assignTenant(t testing.TB, s *Store, owner access.AccountID, n int) {
	t.Helper()
	attached, err := s.Attach(t.Context(), owner, tenant.Tenant{GUID: guid(n), Managed: true, ConsentedAt: now})
	must(t, "assign", err)
	if !attached.Managed {
		t.Fatalf("got the tenant %+v, want it managed", attached)
	}
}

func requireWithdrawn(t testing.TB, s *Store, owner access.AccountID, n int, want bool) {
	t.Helper()
	got, err := s.Withdrawn(t.Context(), owner, guid(n))
	must(t, "withdrawn", err)
	if got != want {
		t.Fatalf("tenant %d is withdrawn from account %s: got %v, want %v", n, owner, got, want)
	}
}

func TestWithdrawnTenantCanBeAssignedToDifferentAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		assignTenant(t, s, ann, 1)
		addDomain(t, s, ann, guid(1), "contoso.test")
		requireWithdrawn(t, s, ann, 1, false)
		if holder, err := s.AccountOfManagedTenant(t.Context(), guid(1)); err != nil || holder != ann {
			t.Fatalf("the tenant is assigned to %s, want %s: %v", holder, ann, err)
		}
		holder, err := s.Withdraw(t.Context(), guid(1))
		must(t, "withdraw", err)
		if holder != ann {
			t.Fatalf("the tenant was withdrawn from %s, want %s", holder, ann)
		}
		_, err = s.Tenant(t.Context(), ann, guid(1))
		requireRefusal(t, "tenant", err, fault.TenantNotFound)
		requireWithdrawn(t, s, ann, 1, true)
		requireWithdrawn(t, s, bob, 1, false)
		requireWithdrawn(t, s, ann, 2, false)
		assignTenant(t, s, bob, 1)
	})
}

func TestTenantThatOperatorDidNotAssignCannotBeWithdrawn(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		for _, id := range []tenant.GUID{guid(1), unknownGUID, "nonsense"} {
			_, err := s.AccountOfManagedTenant(t.Context(), id)
			requireRefusal(t, "assigned", err, fault.TenantNotFound)
			_, err = s.Withdraw(t.Context(), id)
			requireRefusal(t, "withdraw", err, fault.TenantNotFound)
		}
		_, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "the tenant after the refused withdrawals", err)
	})
}

func TestOperatorCannotAssignTenantThatAccountConnected(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		connected := attachTenant(t, s, ann, 1)
		_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), Managed: true, ConsentedAt: now.Add(time.Hour)})
		requireRefusal(t, "assign", err, fault.TenantHeld)
		got, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "the tenant after the refused assignment", err)
		if got != connected {
			t.Fatalf("got %+v, want %+v", got, connected)
		}
	})
}

func TestDeletionOrNewAssignmentClearsWithdrawal(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		for n := range 3 {
			assignTenant(t, s, ann, n)
			_, err := s.Withdraw(t.Context(), guid(n))
			must(t, "withdraw", err)
		}
		requireRefusal(t, "delete", s.DeleteTenant(t.Context(), ann, guid(0), nil), fault.TenantNotFound)
		assignTenant(t, s, ann, 1)
		requireWithdrawn(t, s, ann, 0, false)
		requireWithdrawn(t, s, ann, 1, false)
		requireWithdrawn(t, s, ann, 2, true)
	})
}

func TestDeletingManagedTenantEndsAssignment(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		assignTenant(t, s, ann, 1)
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1), nil))
		requireWithdrawn(t, s, ann, 1, false)
		_, err := s.Withdraw(t.Context(), guid(1))
		requireRefusal(t, "withdraw", err, fault.TenantNotFound)
	})
}

func TestOneOfConcurrentWithdrawalsSucceeds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		assignTenant(t, s, ann, 1)
		errs := concurrently(8, func(int) error {
			_, err := s.Withdraw(t.Context(), guid(1))
			return err
		})
		if n := countWinners(t, errs, fault.TenantNotFound); n != 1 {
			t.Fatalf("%d withdrawals succeeded, want 1", n)
		}
		requireWithdrawn(t, s, ann, 1, true)
	})
}

// TestOperationFailsWithoutAuditEvent checks that an operation fails if its audit event cannot be
// recorded.
func TestOperationFailsWithoutAuditEvent(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		s := migratedStore(t, url(t))
		ann := newAccount(t, s, "ann")
		key := newKey(t, s, ann, 1)
		assignTenant(t, s, ann, 1)
		addDNSConnection(t, s, ann, 1)
		viewBefore := operatorViewOf(t, s, ann)
		execSQL(t, s, "DROP TABLE audit_events")
		for name, change := range map[string]func() error{
			"create account": func() error {
				_, err := s.CreateAccount(t.Context(), "bob@example.test", "complete", 0, now)
				return err
			},
			"change plan": func() error { _, err := s.ChangePlan(t.Context(), ann, "api_starter", 3); return err },
			"suspend":     func() error { _, err := s.SetActive(t.Context(), ann, false); return err },
			"close":       func() error { _, err := s.CloseAccount(t.Context(), ann, now); return err },
			"create key":  func() error { return s.AddKey(t.Context(), apiKey(ann, 2)) },
			"rotate key":  func() error { _, err := s.ReplaceKey(t.Context(), key.ID, apiKey(ann, 2)); return err },
			"revoke key":  func() error { _, err := s.RevokeKey(t.Context(), key.ID, now); return err },
			"assign": func() error {
				_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(2), Managed: true, ConsentedAt: now})
				return err
			},
			"withdraw":              func() error { _, err := s.Withdraw(t.Context(), guid(1)); return err },
			"set time zone":         func() error { _, err := s.SetTimeZone(t.Context(), guid(1), "Europe/Berlin"); return err },
			"add DNS connection":    func() error { return s.AddDNSConnection(t.Context(), newDNSConnection(ann, 2), []byte("sealed")) },
			"remove DNS connection": func() error { _, err := s.RemoveDNSConnection(t.Context(), dnsConnectionID(1)); return err },
		} {
			if err := change(); err == nil {
				t.Errorf("%s without an audit event succeeded, want an error", name)
			}
			if viewAfter := operatorViewOf(t, s, ann); !reflect.DeepEqual(viewAfter, viewBefore) {
				t.Errorf("%s without an audit event: the state is %+v, want the unchanged state %+v", name, viewAfter, viewBefore)
			}
		}
	})
}

// operatorView has stored values that the actions of operators change.
type operatorView struct {
	account            access.Account
	accountCount       int
	key                access.Key
	keyCount           int
	tenant             tenant.Tenant
	tenantCount        int
	timeZone           string
	dnsConnectionCount int
}

func operatorViewOf(t *testing.T, s *Store, id access.AccountID) operatorView {
	t.Helper()
	accounts, err := s.Accounts(t.Context())
	must(t, "accounts", err)
	keys, err := s.IssuedKeys(t.Context(), "")
	must(t, "issued keys", err)
	tenants, err := s.Tenants(t.Context(), id)
	must(t, "tenants", err)
	timeZone, _, err := s.TimeZone(t.Context(), tenants[0].GUID)
	must(t, "time zone", err)
	connections, err := s.DNSConnections(t.Context(), id)
	must(t, "DNS connections", err)
	return operatorView{accounts[0], len(accounts), keys[0], len(keys), tenants[0], len(tenants), timeZone, len(connections)}
}
