// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// tenantClient implements ports.MailTenant for one tenant of the platform.
type tenantClient struct {
	p  *Platform
	id tenant.GUID
}

// For implements ports.MailPlatform.
func (p *Platform) For(id tenant.GUID) ports.MailTenant { return tenantClient{p, id} }

type domainState struct {
	domain.Platform
	acceptedAt       time.Time
	callsUntilListed int // number of calls of MailDomains after acceptedAt that omit the domain
	signing          dns.Signing
}

// call runs one call for the tenant. object is the name, address or id that the call is about, or
// "". effect returns whether it has changed the tenant. call fails with access_denied if consent is
// not granted.
func (c tenantClient) call(ctx context.Context, method, object string, effect func(*tenantState) (changed bool, err error)) error {
	return c.p.call(ctx, method, c.id, object, func() (bool, error) {
		t := c.p.tenants[c.id]
		if t == nil || t.consent != "granted" {
			return false, refuse(fault.AccessDenied, "the tenant has not given consent, or has revoked it")
		}
		return effect(t)
	})
}

// Profile implements ports.TenantDirectory.
func (c tenantClient) Profile(ctx context.Context) (tenant.Profile, error) {
	var profile tenant.Profile
	err := c.call(ctx, "Profile", "", func(t *tenantState) (bool, error) {
		profile = tenant.Profile{Name: t.Name, BuiltinDomain: t.builtinDomain}
		for _, d := range t.domains {
			if d.Default {
				profile.DefaultDomain = d.Name
			}
		}
		return false, nil
	})
	return profile, err
}

// Domains implements ports.TenantDirectory.
func (c tenantClient) Domains(ctx context.Context) ([]domain.Platform, error) {
	var domains []domain.Platform
	err := c.call(ctx, "Domains", "", func(t *tenantState) (bool, error) {
		for _, name := range slices.Sorted(maps.Keys(t.domains)) {
			domains = append(domains, t.domains[name].Platform)
		}
		return false, nil
	})
	return domains, err
}

// Domain implements ports.TenantDirectory.
func (c tenantClient) Domain(ctx context.Context, name string) (domain.Platform, error) {
	var found domain.Platform
	err := c.call(ctx, "Domain", name, func(t *tenantState) (bool, error) {
		d, err := t.domain(name)
		if err == nil {
			found = d.Platform
		}
		return false, err
	})
	return found, err
}

// AddDomain implements ports.TenantDirectory.
func (c tenantClient) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	var added domain.Platform
	err := c.call(ctx, "AddDomain", name, func(t *tenantState) (bool, error) {
		if d := t.domains[name]; d != nil {
			added = d.Platform
			return false, nil
		}
		if !strings.Contains(name, ".") || strings.HasSuffix(name, ".onmicrosoft.com") {
			return false, refuse(fault.InvalidDomain, "the platform does not accept this name")
		}
		t.domains[name] = &domainState{Platform: domain.Platform{Name: name}}
		added = t.domains[name].Platform
		return true, nil
	})
	return added, err
}

// Records implements ports.TenantDirectory.
func (c tenantClient) Records(ctx context.Context, name string) (domain.Records, error) {
	var records domain.Records
	err := c.call(ctx, "Records", name, func(t *tenantState) (bool, error) {
		d, err := t.domain(name)
		if err != nil {
			return false, err
		}
		records.Verification = []dns.Record{t.ownershipRecord(name)}
		if d.MailEnabled {
			records.Service = serviceRecords(name)
		}
		return false, nil
	})
	return records, err
}

// VerifyDomain implements ports.TenantDirectory.
func (c tenantClient) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	var verified domain.Platform
	err := c.call(ctx, "VerifyDomain", name, func(t *tenantState) (bool, error) {
		d, err := t.domain(name)
		if err != nil {
			return false, err
		}
		if d.Verified {
			verified = d.Platform
			return false, nil
		}
		if c.p.verifiedElsewhere(t, name) {
			return false, refuse(fault.DomainUnavailable, "the domain belongs to another tenant")
		}
		if !c.p.DNS.hasRecord(t.ownershipRecord(name)) {
			return false, refuse(fault.VerificationFailed, "the platform does not see the record yet")
		}
		d.Verified = true
		verified = d.Platform
		return true, nil
	})
	return verified, err
}

// EnableMail implements ports.TenantDirectory.
func (c tenantClient) EnableMail(ctx context.Context, name string) error {
	return c.call(ctx, "EnableMail", name, func(t *tenantState) (bool, error) {
		d, err := t.domain(name)
		if err != nil {
			return false, err
		}
		if !d.Verified {
			return false, refuse(fault.DomainNotVerified, "the domain is not verified")
		}
		if d.MailEnabled {
			return false, nil
		}
		d.MailEnabled = true
		d.acceptedAt, d.callsUntilListed = c.p.now.Add(t.Lag.AcceptedDomain), t.Lag.CallsUntilListed
		return true, nil
	})
}

// RemoveDomain implements ports.TenantDirectory.
func (c tenantClient) RemoveDomain(ctx context.Context, name string) error {
	return c.call(ctx, "RemoveDomain", name, func(t *tenantState) (bool, error) {
		d := t.domains[name]
		if d == nil {
			return false, nil
		}
		for _, m := range t.mailboxes {
			if _, mailDomain, _ := strings.Cut(m.Address, "@"); mailDomain == name {
				return false, refuse(fault.DomainInUse, "objects of the tenant use the domain")
			}
		}
		if d.Default {
			return false, refuse(fault.DomainInUse, "it is the default domain of the tenant")
		}
		delete(t.domains, name)
		return true, nil
	})
}

func (t *tenantState) domain(name string) (*domainState, error) {
	if d := t.domains[name]; d != nil {
		return d, nil
	}
	return nil, refuse(fault.DomainNotFound, "the platform holds no such domain")
}

// verifiedElsewhere reports whether a different tenant has verified the domain, or a test has
// called TakeDomain for the domain.
func (p *Platform) verifiedElsewhere(t *tenantState, name string) bool {
	if p.takenDomains[name] {
		return true
	}
	for _, other := range p.tenants {
		if d := other.domains[name]; other != t && d != nil && d.Verified {
			return true
		}
	}
	return false
}

// ownershipRecord returns the record that proves that the tenant owns the domain. Its content
// depends on the tenant and the name.
func (t *tenantState) ownershipRecord(name string) dns.Record {
	h := fnv.New32a()
	_, _ = h.Write([]byte(string(t.guid) + name))
	return dns.Record{Type: dns.TXT, Name: name, Content: fmt.Sprintf("MS=ms%08d", h.Sum32()%100_000_000), TTL: 3600}
}

// serviceRecords returns the MX, SPF and autodiscover records of a domain. As with Microsoft 365,
// callers cannot derive the MX host from the domain and must read it from these records.
func serviceRecords(name string) []dns.Record {
	host := strings.ReplaceAll(strings.ReplaceAll(name, "-", ""), ".", "-") + "01b.k-v1.mx.microsoft"
	return []dns.Record{
		{Type: dns.MX, Name: name, Content: host, TTL: 3600},
		{Type: dns.TXT, Name: name, Content: "v=spf1 include:spf.protection.outlook.com -all", TTL: 3600},
		{Type: dns.CNAME, Name: "autodiscover." + name, Content: "autodiscover.outlook.com", TTL: 3600},
	}
}
