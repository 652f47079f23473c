// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

// hydrationTime is the time that a dehydrated tenant takes to become usable.
const hydrationTime = time.Minute

// callMailServer runs one call of the tenant's mail server. It fails with access_denied unless the
// role is assigned and works.
func (c tenantClient) callMailServer(ctx context.Context, method, object string, effect func(*tenantState) (bool, error)) error {
	return c.call(ctx, method, object, func(t *tenantState) (bool, error) {
		if !t.hasRole || c.p.now.Before(t.roleWorksAt) {
			return false, refuse(fault.AccessDenied, "the mail server's role is not assigned, or does not work yet")
		}
		return effect(t)
	})
}

// Bootstrap implements ports.MailServer.
func (c tenantClient) Bootstrap(ctx context.Context) (tenant.Progress, error) {
	var progress tenant.Progress
	err := c.call(ctx, "Bootstrap", "", func(t *tenantState) (changed bool, _ error) {
		progress, changed = t.bootstrap(c.p.now)
		return changed, nil
	})
	return progress, err
}

func (t *tenantState) bootstrap(now time.Time) (tenant.Progress, bool) {
	wait := tenant.Progress{Status: tenant.BootstrapPending, Step: tenant.StepWait, Message: "the mail server is being prepared"}
	switch {
	case !t.hasRole && t.Denied:
		return tenant.Progress{
			Status: tenant.BootstrapFailed, Step: tenant.StepGrantRole,
			Message: "an administrator has to grant the mail server's role",
		}, false
	case !t.hasRole:
		t.hasRole, t.roleWorksAt = true, now.Add(t.Lag.Role)
		progress, _ := t.bootstrap(now)
		return progress, true
	case now.Before(t.roleWorksAt):
		return wait, false
	case t.Dehydrated && t.hydratedAt.IsZero():
		t.hydratedAt = now.Add(hydrationTime)
		return wait, true
	case t.Dehydrated && now.Before(t.hydratedAt):
		return wait, false
	default:
		return tenant.Progress{Status: tenant.BootstrapReady, Message: "the mail server is ready"}, false
	}
}

// SMTPAuth implements ports.MailServer.
func (c tenantClient) SMTPAuth(ctx context.Context) (tenant.SMTPAuth, error) {
	var smtpAuth tenant.SMTPAuth
	err := c.callMailServer(ctx, "SMTPAuth", "", func(t *tenantState) (bool, error) {
		smtpAuth = t.smtpAuth
		return false, nil
	})
	return smtpAuth, err
}

// EnableSMTPAuth implements ports.MailServer.
func (c tenantClient) EnableSMTPAuth(ctx context.Context) error {
	return c.callMailServer(ctx, "EnableSMTPAuth", "", func(t *tenantState) (bool, error) {
		if t.SMTPAuthRefused {
			return false, refuse(fault.SMTPAuthNotEnabled, "the platform refuses to enable SMTP AUTH")
		}
		changed := t.smtpAuth != tenant.SMTPAuthEnabled
		t.smtpAuth = tenant.SMTPAuthEnabled
		return changed, nil
	})
}

// MailDomains implements ports.MailServer.
func (c tenantClient) MailDomains(ctx context.Context) ([]string, error) {
	var names []string
	err := c.callMailServer(ctx, "MailDomains", "", func(t *tenantState) (bool, error) {
		names = append(names, t.builtinDomain)
		for _, name := range slices.Sorted(maps.Keys(t.domains)) {
			d := t.domains[name]
			if d.MailEnabled && !c.p.now.Before(d.acceptedAt) && d.callsUntilListed > 0 {
				d.callsUntilListed--
				continue
			}
			if t.acceptsDomain(name, c.p.now) {
				names = append(names, name)
			}
		}
		return false, nil
	})
	return names, err
}

func (t *tenantState) acceptsDomain(name string, now time.Time) bool {
	d := t.domains[name]
	return d != nil && d.MailEnabled && d.callsUntilListed == 0 && !now.Before(d.acceptedAt)
}

// Signing implements ports.MailServer.
func (c tenantClient) Signing(ctx context.Context, name string) (dns.Signing, error) {
	var signing dns.Signing
	err := c.callMailServer(ctx, "Signing", name, func(t *tenantState) (bool, error) {
		if d := t.domains[name]; d != nil {
			signing = d.signing
		}
		return false, nil
	})
	return signing, err
}

// EnsureSigning implements ports.MailServer.
func (c tenantClient) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	var signing dns.Signing
	err := c.callMailServer(ctx, "EnsureSigning", name, func(t *tenantState) (bool, error) {
		if !t.acceptsDomain(name, c.p.now) {
			return false, notReady("the mail server does not accept the domain yet")
		}
		d := t.domains[name]
		changed := d.signing.Selector1.Name == ""
		if changed {
			d.signing.Selector1, d.signing.Selector2 = t.selectorRecord("selector1", name), t.selectorRecord("selector2", name)
		}
		signing = d.signing
		return changed, nil
	})
	return signing, err
}

// EnableSigning implements ports.MailServer.
func (c tenantClient) EnableSigning(ctx context.Context, name string) error {
	return c.callMailServer(ctx, "EnableSigning", name, func(t *tenantState) (bool, error) {
		d := t.domains[name]
		if d == nil || d.signing.Selector1.Name == "" {
			return false, refuse(fault.DKIMNotReady, "the platform has made no DKIM records")
		}
		if d.signing.Enabled {
			return false, nil
		}
		if !c.p.DNS.hasRecord(d.signing.Selector1) || !c.p.DNS.hasRecord(d.signing.Selector2) {
			return false, refuse(fault.DKIMNotReady, "the platform does not see the DKIM records")
		}
		d.signing.Enabled = true
		return true, nil
	})
}

func (t *tenantState) selectorRecord(label, name string) dns.Record {
	prefix, _, _ := strings.Cut(t.builtinDomain, ".")
	dashedName := strings.ReplaceAll(strings.ReplaceAll(name, "-", ""), ".", "-")
	return dns.Record{
		Type: dns.CNAME, Name: label + "._domainkey." + name, TTL: 3600,
		Content: label + "-" + dashedName + "01i._domainkey." + prefix + ".n-v1.dkim.mail.microsoft",
	}
}
