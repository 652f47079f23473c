// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// mailTenant implements sdk.MailTenant for one tenant.
type mailTenant struct {
	sdk.MailTenant // the methods that are not written yet; a call of one returns Broken

	platform platform
	id       sdk.TenantID
}

// The JSON documents of the API.
type (
	profileDoc struct {
		Name          string `json:"name"`
		BuiltinDomain string `json:"builtin_domain"`
		DefaultDomain string `json:"default_domain"`
	}
	domainDoc struct {
		Name        string `json:"name"`
		Verified    bool   `json:"verified"`
		Default     bool   `json:"default"`
		MailEnabled bool   `json:"mail_enabled"`
	}
)

// Profile implements sdk.MailTenant.
func (t mailTenant) Profile(ctx context.Context) (sdk.TenantProfile, error) {
	var doc profileDoc
	if err := t.call(ctx, http.MethodGet, "", nil, &doc); err != nil {
		return sdk.TenantProfile{}, refused(err)
	}
	if doc.BuiltinDomain == "" {
		return sdk.TenantProfile{}, sdk.BrokenAnswer("no_profile")
	}
	return sdk.TenantProfile{Name: doc.Name, BuiltinDomain: doc.BuiltinDomain, DefaultDomain: doc.DefaultDomain}, nil
}

// Domains implements sdk.MailTenant.
func (t mailTenant) Domains(ctx context.Context) ([]sdk.MailDomain, error) {
	var list struct {
		Domains []domainDoc `json:"domains"`
	}
	if err := t.call(ctx, http.MethodGet, "/domains", nil, &list); err != nil {
		return nil, refused(err)
	}
	if list.Domains == nil {
		return nil, sdk.BrokenAnswer("no_domains")
	}
	var domains []sdk.MailDomain
	for _, d := range list.Domains {
		domains = append(domains, sdk.MailDomain(d))
	}
	return domains, nil
}

// Domain implements sdk.MailTenant.
func (t mailTenant) Domain(ctx context.Context, name string) (sdk.MailDomain, error) {
	var doc domainDoc
	switch err := t.call(ctx, http.MethodGet, "/domains/"+url.PathEscape(name), nil, &doc); {
	case errors.Is(err, errNotFound):
		return sdk.MailDomain{}, sdk.DomainNotFound("status 404")
	case err != nil:
		return sdk.MailDomain{}, err
	case doc.Name == "":
		return sdk.MailDomain{}, sdk.BrokenAnswer("no_domain")
	}
	return sdk.MailDomain(doc), nil
}

// AddDomain implements sdk.MailTenant. The API answers with the existing domain if there is one, so
// a repeated call changes nothing.
func (t mailTenant) AddDomain(ctx context.Context, name string) (sdk.MailDomain, error) {
	var doc domainDoc
	if err := t.call(ctx, http.MethodPut, "/domains/"+url.PathEscape(name), struct{}{}, &doc); err != nil {
		return sdk.MailDomain{}, refused(err)
	}
	if doc.Name == "" {
		return sdk.MailDomain{}, sdk.BrokenAnswer("no_domain")
	}
	return sdk.MailDomain(doc), nil
}

func (t mailTenant) call(ctx context.Context, method, path string, in, out any) error {
	return t.platform.call(ctx, method, "/tenants/"+url.PathEscape(string(t.id))+path, in, out)
}

// refused turns errNotFound into the outcome for a tenant that the application cannot reach.
func refused(err error) error {
	if errors.Is(err, errNotFound) {
		return sdk.CredentialRefused("status 404")
	}
	return err
}
