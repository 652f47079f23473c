// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// mailTenant implements sdk.MailTenant for one tenant.
type mailTenant struct {
	platform platform
	id       sdk.TenantID
}

func (t mailTenant) call(ctx context.Context, method, path string, in, out any) error {
	return t.platform.call(ctx, method, t.path(path), in, out)
}

func (t mailTenant) path(path string) string {
	return "/tenants/" + url.PathEscape(string(t.id)) + path
}

// remove deletes an object. If the object does not exist, the platform answers with notFoundCode,
// and remove succeeds.
func (t mailTenant) remove(ctx context.Context, path, notFoundCode string) error {
	err := t.platform.send(ctx, http.MethodDelete, t.path(path), nil, &struct{}{})
	if isRefusal(err, notFoundCode) {
		return nil
	}
	return asOutcome(err)
}

// The JSON documents of the API about domains.
type (
	domainDoc struct {
		Name        string `json:"name"`
		Verified    bool   `json:"verified"`
		Default     bool   `json:"default"`
		MailEnabled bool   `json:"mail_enabled"`
	}
	recordDoc struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Content  string `json:"content"`
		Priority int    `json:"priority"`
		TTL      int    `json:"ttl"`
	}
)

// Profile implements sdk.MailTenant.
func (t mailTenant) Profile(ctx context.Context) (sdk.TenantProfile, error) {
	var doc struct {
		Name          string `json:"name"`
		BuiltinDomain string `json:"builtin_domain"`
		DefaultDomain string `json:"default_domain"`
	}
	if err := t.call(ctx, http.MethodGet, "", nil, &doc); err != nil {
		return sdk.TenantProfile{}, err
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
		return nil, err
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
	return t.requestDomain(ctx, http.MethodGet, name, "")
}

// AddDomain implements sdk.MailTenant. The API answers with the existing domain if there is one, so
// a repeated call changes nothing.
func (t mailTenant) AddDomain(ctx context.Context, name string) (sdk.MailDomain, error) {
	return t.requestDomain(ctx, http.MethodPut, name, "")
}

// VerifyDomain implements sdk.MailTenant.
func (t mailTenant) VerifyDomain(ctx context.Context, name string) (sdk.MailDomain, error) {
	return t.requestDomain(ctx, http.MethodPost, name, "/verify")
}

// EnableMail implements sdk.MailTenant.
func (t mailTenant) EnableMail(ctx context.Context, name string) error {
	_, err := t.requestDomain(ctx, http.MethodPost, name, "/mail")
	return err
}

// RemoveDomain implements sdk.MailTenant.
func (t mailTenant) RemoveDomain(ctx context.Context, name string) error {
	return t.remove(ctx, "/domains/"+url.PathEscape(name), "no_domain")
}

func (t mailTenant) requestDomain(ctx context.Context, method, name, path string) (sdk.MailDomain, error) {
	var doc domainDoc
	if err := t.call(ctx, method, "/domains/"+url.PathEscape(name)+path, nil, &doc); err != nil {
		return sdk.MailDomain{}, err
	}
	if doc.Name == "" {
		return sdk.MailDomain{}, sdk.BrokenAnswer("no_domain")
	}
	return sdk.MailDomain(doc), nil
}

// Records implements sdk.MailTenant.
func (t mailTenant) Records(ctx context.Context, name string) (sdk.MailRecords, error) {
	var doc struct {
		Proof []recordDoc `json:"proof"`
		Mail  []recordDoc `json:"mail"`
	}
	if err := t.call(ctx, http.MethodGet, "/domains/"+url.PathEscape(name)+"/records", nil, &doc); err != nil {
		return sdk.MailRecords{}, err
	}
	if doc.Proof == nil {
		return sdk.MailRecords{}, sdk.BrokenAnswer("no_records")
	}
	return sdk.MailRecords{Verification: records(doc.Proof), Service: records(doc.Mail)}, nil
}

func records(docs []recordDoc) (list []sdk.Record) {
	for _, d := range docs {
		list = append(list, d.record())
	}
	return list
}

func (d recordDoc) record() sdk.Record {
	return sdk.Record{Type: sdk.RecordType(d.Type), Name: d.Name, Content: d.Content, Preference: d.Priority, TTL: d.TTL}
}
