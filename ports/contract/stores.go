// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Stores has all store ports over one database. A suite tests one port and uses the others to
// prepare its data.
type Stores interface {
	ports.Accounts
	ports.IssuedKeys
	ports.Keys
	ports.Tenants
	ports.Assignments
	ports.Discovered
	ports.Domains
	ports.DomainChecks
	ports.MailboxStore
	ports.ConnectFlows
	ports.DNSConnections
	ports.DNSWrites
	ports.DNSRuns
	ports.DNSJobs
	ports.Integrations
	ports.Connections
	ports.SendPolicies
	ports.SendDays
	ports.SendRuns
	ports.SendCapacity
	ports.SendWatch
	ports.EnforcementEvents
	ports.Audit
	ports.Idempotency
}

// storeCheck is one promise of a store port. run receives an empty store.
type storeCheck struct {
	name string
	run  func(t testing.TB, s Stores)
}

func runStores(t *testing.T, open func(testing.TB) Stores, checks []storeCheck) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// Accounts runs the contract of ports.Accounts. open returns an empty store.
func Accounts(t *testing.T, open func(testing.TB) Stores) {
	runStores(t, open, append(accountChecks, closingChecks...))
}

// IssuedKeys runs the contract of ports.IssuedKeys.
func IssuedKeys(t *testing.T, open func(testing.TB) Stores) { runStores(t, open, issuedKeyChecks) }

// Keys runs the contract of ports.Keys.
func Keys(t *testing.T, open func(testing.TB) Stores) { runStores(t, open, keyChecks) }

// Tenants runs the contract of ports.Tenants.
func Tenants(t *testing.T, open func(testing.TB) Stores) {
	runStores(t, open, append(tenantChecks, attachChecks...))
}

// Assignments runs the contract of ports.Assignments.
func Assignments(t *testing.T, open func(testing.TB) Stores) { runStores(t, open, assignmentChecks) }

// Discovered runs the contract of ports.Discovered.
func Discovered(t *testing.T, open func(testing.TB) Stores) {
	runStores(t, open, append(discoveredDomainChecks, discoveredMailboxChecks...))
}

// Domains runs the contract of ports.Domains.
func Domains(t *testing.T, open func(testing.TB) Stores) {
	runStores(t, open, append(storedDomainChecks, changedDomainChecks...))
}

// DomainChecks runs the contract of ports.DomainChecks.
func DomainChecks(t *testing.T, open func(testing.TB) Stores) { runStores(t, open, staleDomainChecks) }

// MailboxStore runs the contract of ports.MailboxStore.
func MailboxStore(t *testing.T, open func(testing.TB) Stores) {
	runStores(t, open, append(storedMailboxChecks, reserveMailboxChecks...))
}

// ConnectFlows runs the contract of ports.ConnectFlows.
func ConnectFlows(t *testing.T, open func(testing.TB) Stores) { runStores(t, open, flowChecks) }

// DNSConnections runs the contract of ports.DNSConnections.
func DNSConnections(t *testing.T, open func(testing.TB) Stores) {
	runStores(t, open, dnsConnectionChecks)
}

// DNSWrites runs the contract of ports.DNSWrites.
func DNSWrites(t *testing.T, open func(testing.TB) Stores) { runStores(t, open, dnsWriteChecks) }

// DNSRuns runs the contract of ports.DNSRuns.
func DNSRuns(t *testing.T, open func(testing.TB) Stores) {
	runStores(t, open, append(dnsRunChecks, dnsRetryChecks...))
}

// DNSJobs runs the contract of ports.DNSJobs.
func DNSJobs(t *testing.T, open func(testing.TB) Stores) { runStores(t, open, dnsJobChecks) }

// Integrations runs the contract of ports.Integrations.
func Integrations(t *testing.T, open func(testing.TB) Stores) { runStores(t, open, integrationChecks) }

// Connections runs the contract of ports.Connections.
func Connections(t *testing.T, open func(testing.TB) Stores) {
	runStores(t, open, slices.Concat(eligibleChecks, connectionChecks, sessionChecks, sessionEndChecks, refreshChecks))
}

// SendPolicies runs the contract of ports.SendPolicies.
func SendPolicies(t *testing.T, open func(testing.TB) Stores) { runStores(t, open, sendPolicyChecks) }

// SendDays runs the contract of ports.SendDays.
func SendDays(t *testing.T, open func(testing.TB) Stores) { runStores(t, open, sendDayChecks) }

// SendRuns runs the contract of ports.SendRuns and ports.SendWatch.
func SendRuns(t *testing.T, open func(testing.TB) Stores) {
	runStores(t, open, slices.Concat(sendRunChecks, sendDueChecks, sendChangeChecks, sendGoneChecks, sendIntentChecks, sendWatchChecks))
}

// SendCapacity runs the contract of ports.SendCapacity.
func SendRoom(t *testing.T, open func(testing.TB) Stores) { runStores(t, open, sendRoomChecks) }

// EnforcementEvents runs the contract of ports.EnforcementEvents.
func EnforcementEvents(t *testing.T, open func(testing.TB) Stores) {
	runStores(t, open, enforcementEventChecks)
}

// Audit runs the contract of ports.Audit. open returns an empty store whose actions are recorded
// for Operator.
func Audit(t *testing.T, open func(testing.TB) Stores) {
	runStores(t, open, append(auditChecks, operatorActionChecks()...))
}

// Idempotency runs the contract of ports.Idempotency.
func Idempotency(t *testing.T, open func(testing.TB) Stores) {
	runStores(t, open, slices.Concat(claimChecks, leaseChecks, completionChecks))
}

// StoreEffects checks which effects the stores note in ports.Effects.
func StoreEffects(t *testing.T, open func(testing.TB) Stores) { runStores(t, open, storeEffectChecks) }

// Operator is the name that the stores of these suites record in the audit log.
const Operator = "carol@desk"

// now is the current time of the checks. It has microseconds, the precision of the stores.
var now = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

// concurrency is the number of concurrent calls in the checks of races.
const concurrency = 50

// hostileText contains characters that break careless SQL, templates and terminals. Providers can
// return it in any field.
const hostileText = "O'Brien \"quoted\" \\ ? ?0 $1 {{.}} ; DROP TABLE tenants; -- \u202e 🏴"

func newAccount(t testing.TB, s Stores, name string) access.AccountID {
	t.Helper()
	a, err := s.CreateAccount(t.Context(), name+"@example.test", "complete", 0, now)
	must(t, "create account", err)
	return a.ID
}

func guid(n int) tenant.GUID { return tenant.GUID(fmt.Sprintf("10000000-0000-4000-8000-%012d", n)) }

func attachTenant(t testing.TB, s Stores, owner access.AccountID, n int) tenant.Tenant {
	t.Helper()
	made, err := s.Attach(t.Context(), owner, tenant.Tenant{
		GUID: guid(n), Name: "Contoso", ConsentedAt: now, ConnectedBy: "admin@contoso.test",
	}, 100)
	must(t, "attach", err)
	return made
}

// addDomain stores a domain that is added at the platform.
func addDomain(t testing.TB, s Stores, owner access.AccountID, id tenant.GUID, name string) domain.Domain {
	t.Helper()
	d, err := s.ReserveDomain(t.Context(), owner, id, name, domain.MaxPerTenant, now)
	must(t, "reserve domain", err)
	d.Added, d.JustReserved = true, false
	must(t, "save domain", s.SaveDomain(t.Context(), owner, d, nil))
	return d
}

// addMailbox stores a mailbox in a stage of its creation.
func addMailbox(t testing.TB, s Stores, owner access.AccountID, d domain.Domain, local string, stage mailbox.Stage) mailbox.Mailbox {
	t.Helper()
	boxes, err := s.ReserveMailboxes(t.Context(), owner, d.ID, mailboxSpecs(d, local), mailbox.MaxPerDomain, now)
	must(t, "reserve mailbox", err)
	m := boxes[0]
	m.Stage, m.Provisioned, m.JustReserved = stage, stage != mailbox.Reserved, false
	must(t, "save mailbox", s.SaveMailbox(t.Context(), owner, m))
	return m
}

func mailboxSpecs(d domain.Domain, locals ...string) []mailbox.Spec {
	var all []mailbox.Spec
	for _, local := range locals {
		all = append(all, mailbox.Spec{DisplayName: "Name of " + local, Address: local + "@" + d.Name})
	}
	return all
}

// requireSameError checks that a foreign object and an unknown one get the same error.
func requireSameError(t testing.TB, what string, a, b error) {
	t.Helper()
	if a == nil || b == nil || a.Error() != b.Error() {
		t.Fatalf("%s: foreign gives %v, unknown gives %v", what, a, b)
	}
}
