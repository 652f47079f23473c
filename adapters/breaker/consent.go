// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"context"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// The calls of the consent share the circuit of the login host. All but
// Administrator only make or read URLs.
var (
	atLogin = traits{}
	makeURL = traits{local: true}
)

// Check implements ports.MailPlatform. It is a read of the login host.
func (p *Platform) Check(ctx context.Context) error {
	_, err := run(ctx, p.circuits.circuit(loginDomain), atLogin, func() (struct{}, error) {
		return struct{}{}, p.next.Check(ctx)
	})
	return err
}

// ConsentURL implements ports.Consent.
func (p *Platform) ConsentURL(ctx context.Context, state, redirect string) (string, error) {
	return run(ctx, p.circuits.circuit(loginDomain), makeURL, func() (string, error) {
		return p.next.ConsentURL(ctx, state, redirect)
	})
}

// Granted implements ports.Consent.
func (p *Platform) Granted(ctx context.Context, query string) (tenant.GUID, error) {
	return run(ctx, p.circuits.circuit(loginDomain), makeURL, func() (tenant.GUID, error) {
		return p.next.Granted(ctx, query)
	})
}

// SignInURL implements ports.Consent.
func (p *Platform) SignInURL(ctx context.Context, s ports.SignIn) (string, error) {
	return run(ctx, p.circuits.circuit(loginDomain), makeURL, func() (string, error) {
		return p.next.SignInURL(ctx, s)
	})
}

// Administrator implements ports.Consent. It changes nothing at the platform,
// so it may be the call that finds out whether the login host is back.
func (p *Platform) Administrator(ctx context.Context, s ports.SignIn, code secret.Text) (tenant.Administrator, error) {
	return run(ctx, p.circuits.circuit(loginDomain), atLogin, func() (tenant.Administrator, error) {
		return p.next.Administrator(ctx, s, code)
	})
}
