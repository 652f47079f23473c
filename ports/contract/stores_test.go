// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/ports"
)

// The aliases let a type embed a port whose name is also the name of one of its methods.
type (
	accountsPort          = ports.Accounts
	issuedKeysPort        = ports.IssuedKeys
	keysPort              = ports.Keys
	tenantsPort           = ports.Tenants
	assignmentsPort       = ports.Assignments
	discoveredPort        = ports.Discovered
	domainsPort           = ports.Domains
	domainChecksPort      = ports.DomainChecks
	mailboxStorePort      = ports.MailboxStore
	connectFlowsPort      = ports.ConnectFlows
	dnsConnectionsPort    = ports.DNSConnections
	dnsWritesPort         = ports.DNSWrites
	dnsRunsPort           = ports.DNSRuns
	dnsJobsPort           = ports.DNSJobs
	integrationsPort      = ports.Integrations
	connectionsPort       = ports.Connections
	sendPoliciesPort      = ports.SendPolicies
	sendDaysPort          = ports.SendDays
	sendRunsPort          = ports.SendRuns
	sendRoomPort          = ports.SendCapacity
	sendWatchPort         = ports.SendWatch
	enforcementEventsPort = ports.EnforcementEvents
	auditPort             = ports.Audit
	idempotencyPort       = ports.Idempotency
)

// replaceableStore is a store whose ports can be replaced one by one. Embedding Stores in every
// broken type would make the compiler generate about two hundred methods for each.
type replaceableStore struct {
	accountsPort
	issuedKeysPort
	keysPort
	tenantsPort
	assignmentsPort
	discoveredPort
	domainsPort
	domainChecksPort
	mailboxStorePort
	connectFlowsPort
	dnsConnectionsPort
	dnsWritesPort
	dnsRunsPort
	dnsJobsPort
	integrationsPort
	connectionsPort
	sendPoliciesPort
	sendDaysPort
	sendRunsPort
	sendRoomPort
	sendWatchPort
	enforcementEventsPort
	auditPort
	idempotencyPort
}

// withPort returns s with one port replaced by the broken type that implements it.
func withPort(s Stores, double any) Stores {
	p := replaceableStore{s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s}
	switch double := double.(type) {
	case accountsPort:
		p.accountsPort = double
	case issuedKeysPort:
		p.issuedKeysPort = double
	case keysPort:
		p.keysPort = double
	case tenantsPort:
		p.tenantsPort = double
	case assignmentsPort:
		p.assignmentsPort = double
	case discoveredPort:
		p.discoveredPort = double
	case domainsPort:
		p.domainsPort = double
	case domainChecksPort:
		p.domainChecksPort = double
	case mailboxStorePort:
		p.mailboxStorePort = double
	case connectFlowsPort:
		p.connectFlowsPort = double
	case dnsConnectionsPort:
		p.dnsConnectionsPort = double
	case dnsWritesPort:
		p.dnsWritesPort = double
	case dnsRunsPort:
		p.dnsRunsPort = double
	case dnsJobsPort:
		p.dnsJobsPort = double
	case integrationsPort:
		p.integrationsPort = double
	case connectionsPort:
		p.connectionsPort = double
	case sendPoliciesPort:
		p.sendPoliciesPort = double
	case sendDaysPort:
		p.sendDaysPort = double
	case sendRunsPort:
		p.sendRunsPort = double
	case sendRoomPort:
		p.sendRoomPort = double
	case sendWatchPort:
		p.sendWatchPort = double
	case enforcementEventsPort:
		p.enforcementEventsPort = double
	case auditPort:
		p.auditPort = double
	case idempotencyPort:
		p.idempotencyPort = double
	default:
		panic(fmt.Sprintf("%T implements no port", double))
	}
	return p
}

// requireDetected checks that at least one check of a suite fails on a broken store. open returns
// an empty store.
func requireDetected(t *testing.T, open func(testing.TB) Stores, suite []storeCheck, breakPromise func(Stores) Stores) {
	t.Helper()
	for _, c := range suite {
		if fails(t, func(t testing.TB) { c.run(t, breakPromise(open(t))) }) {
			return
		}
	}
	t.Fatal("the suite does not detect the broken promise")
}

// oneCheck returns the check of a suite that has this name.
func oneCheck(suite []storeCheck, name string) []storeCheck {
	at := slices.IndexFunc(suite, func(c storeCheck) bool { return c.name == name })
	return suite[at : at+1]
}

// racing is a store with a method that reads and then writes without a lock. All concurrent callers
// read before the first one writes.
type racing struct {
	Stores
	reading *sync.WaitGroup
}

func race(s Stores) racing {
	r := racing{s, new(sync.WaitGroup)}
	r.reading.Add(concurrency)
	return r
}

// meet waits until all concurrent callers have read.
func (r racing) meet() {
	r.reading.Done()
	r.reading.Wait()
}

// reusedStore opens one store. The returned function deletes all rows and returns that store, so
// that a check starts with an empty one. To migrate a database for each check would take longer
// than the checks.
func reusedStore(t *testing.T) func(testing.TB) Stores {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tenantry.db")
	s, err := bunstore.Open(t.Context(), "sqlite://"+file, bunstore.Options{Operator: Operator})
	must(t, "open", err)
	t.Cleanup(func() { _ = s.Close() })
	must(t, "migrate", s.Migrate(t.Context()))
	tables, err := s.Tables(t.Context())
	must(t, "list tables", err)
	direct, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)") // this connection does not enforce foreign keys
	must(t, "open directly", err)
	t.Cleanup(func() { _ = direct.Close() })
	script := "BEGIN IMMEDIATE;"
	for _, table := range tables {
		if table.Name != "plans" && table.Name != "schema_release" { // filled by migrations
			script += "DELETE FROM " + table.Name + ";"
		}
	}
	return func(t testing.TB) Stores {
		_, err := direct.ExecContext(t.Context(), script+"COMMIT")
		must(t, "delete all rows", err)
		return s
	}
}
