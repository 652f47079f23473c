// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// Bootstrap implements sdk.MailTenant. The application needs a role of the mail server. It can
// usually assign the role to itself. Assigning the role again changes nothing.
func (t mailTenant) Bootstrap(ctx context.Context) (sdk.Preparation, error) {
	var role struct {
		State string `json:"state"`
	}
	if err := t.call(ctx, http.MethodPut, "/role", nil, &role); err != nil {
		return sdk.Preparation{}, err
	}
	switch role.State {
	case "active":
		return sdk.Preparation{Status: sdk.PreparationReady, Message: "the mail server is ready"}, nil
	case "waiting":
		return sdk.Preparation{Status: sdk.PreparationPending, Step: sdk.StepWait, Message: "the mail server is being prepared"}, nil
	case "denied":
		return sdk.Preparation{Status: sdk.PreparationFailed, Step: sdk.StepGrantRole, Message: "an administrator must grant the role of the mail server"}, nil
	}
	return sdk.Preparation{}, sdk.BrokenAnswer("no_state")
}

// smtpDoc says whether authenticated SMTP is enabled.
type smtpDoc struct {
	Enabled *bool `json:"enabled"`
}

// SMTPAuth implements sdk.MailTenant.
func (t mailTenant) SMTPAuth(ctx context.Context) (sdk.SMTPAuth, error) {
	var doc smtpDoc
	switch err := t.call(ctx, http.MethodGet, "/smtp", nil, &doc); {
	case err != nil:
		return "", err
	case doc.Enabled == nil:
		return "", sdk.BrokenAnswer("no_state")
	case *doc.Enabled:
		return sdk.SMTPAuthEnabled, nil
	}
	return sdk.SMTPAuthDisabled, nil
}

// EnableSMTPAuth implements sdk.MailTenant.
func (t mailTenant) EnableSMTPAuth(ctx context.Context) error {
	enabled := true
	return t.call(ctx, http.MethodPut, "/smtp", smtpDoc{&enabled}, &smtpDoc{})
}

// MailDomains implements sdk.MailTenant.
func (t mailTenant) MailDomains(ctx context.Context) ([]string, error) {
	var list struct {
		Domains []string `json:"domains"`
	}
	if err := t.call(ctx, http.MethodGet, "/mail-domains", nil, &list); err != nil {
		return nil, err
	}
	if list.Domains == nil {
		return nil, sdk.BrokenAnswer("no_domains")
	}
	return list.Domains, nil
}

// Signing implements sdk.MailTenant.
func (t mailTenant) Signing(ctx context.Context, name string) (sdk.Signing, error) {
	signing, err := t.requestSigning(ctx, http.MethodGet, name)
	if isRefusal(err, "no_signing") {
		return sdk.Signing{}, nil
	}
	return signing, asOutcome(err)
}

// EnsureSigning implements sdk.MailTenant.
func (t mailTenant) EnsureSigning(ctx context.Context, name string) (sdk.Signing, error) {
	signing, err := t.requestSigning(ctx, http.MethodPut, name)
	return signing, asOutcome(err)
}

// EnableSigning implements sdk.MailTenant.
func (t mailTenant) EnableSigning(ctx context.Context, name string) error {
	return t.call(ctx, http.MethodPost, "/signing/"+url.PathEscape(name)+"/enable", nil, &struct{}{})
}

// requestSigning sends a request with this method to the path of a domain's DKIM configuration, and
// returns the configuration. It returns the errors of platform.send.
func (t mailTenant) requestSigning(ctx context.Context, method, name string) (sdk.Signing, error) {
	var doc struct {
		Enabled bool        `json:"enabled"`
		Records []recordDoc `json:"records"`
	}
	if err := t.platform.send(ctx, method, t.path("/signing/"+url.PathEscape(name)), nil, &doc); err != nil {
		return sdk.Signing{}, err
	}
	if len(doc.Records) != 2 {
		return sdk.Signing{}, sdk.BrokenAnswer("no_records")
	}
	return sdk.Signing{Enabled: doc.Enabled, Selector1: doc.Records[0].record(), Selector2: doc.Records[1].record()}, nil
}
