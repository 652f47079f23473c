// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"reflect"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// fakeServers are the name servers to which the fake DNS delegates every zone.
var fakeServers = []string{"ns1.fake.test", "ns2.fake.test"}

// A survey detects detectedProvider from the names of the zone's name servers. It finds
// undetectedProvider only through a connection.
var (
	detectedProvider   = dns.Provider{ID: "cloudflare", Title: "Cloudflare", NameServers: []string{"*.fake.test"}}
	undetectedProvider = dns.Provider{ID: "powerdns", Title: "PowerDNS"}
)

// servingProvider returns a provider account that has the zone, with the name servers to which the
// fake DNS delegates it.
func servingProvider(sets ...dns.RRSet) *fake.DNSProvider {
	account := &fake.DNSProvider{}
	account.AddZone(zone, sets...)
	account.Put(zone, dns.RRSet{Name: zone, Type: dns.NS, Values: fakeServers})
	return account
}

// connect adds a connection of fx.account to the provider. Later calls with the token go to the
// provider account that is passed as account.
func (fx *fixture) connect(t *testing.T, provider, token string, account ports.DNSProvider) {
	t.Helper()
	fx.providers.AddAccount(provider, token, &fake.DNSProvider{})
	_, err := fx.Connections.Add(t.Context(), dnsconnections.NewConnection{Account: fx.account.ID, Provider: provider,
		Credential: secret.Credential{Secrets: map[string]secret.Text{"token": secret.New(token)}}})
	must(t, err)
	fx.providers.AddAccount(provider, token, account)
}

// survey surveys the stored domain, and requires that no zone is written.
func (fx *fixture) survey(t *testing.T) domainsteps.Survey {
	t.Helper()
	survey, err := fx.Survey(t.Context(), fx.account.ID, fx.storedDomain(t).ID)
	must(t, err)
	if fx.providers.Writes() != 0 {
		t.Fatal("the survey wrote to a zone")
	}
	return survey
}

func (fx *fixture) platformCalls() (calls int) {
	for method := range reflect.TypeFor[ports.MailTenant]().Methods() {
		calls += fx.fake.Calls(method.Name)
	}
	return calls
}

// actions returns the action and the reason of each item of a plan, by purpose.
func actions(p dns.Plan) map[dns.Purpose]string {
	actionsByPurpose := map[dns.Purpose]string{}
	for _, i := range p.Items {
		actionsByPurpose[i.Purpose] = string(i.Action) + " " + string(i.Reason)
	}
	return actionsByPurpose
}

// brokenProvider is a provider account whose calls of Zone or Records fail.
type brokenProvider struct {
	ports.DNSProvider
	zoneErr, recordsErr error
}

func (b brokenProvider) Zone(ctx context.Context, name string) (dns.Zone, error) {
	if b.zoneErr != nil {
		return dns.Zone{}, b.zoneErr
	}
	return b.DNSProvider.Zone(ctx, name)
}

func (b brokenProvider) Records(ctx context.Context, z dns.Zone) ([]dns.RRSet, error) {
	if b.recordsErr != nil {
		return nil, b.recordsErr
	}
	return b.DNSProvider.Records(ctx, z)
}
