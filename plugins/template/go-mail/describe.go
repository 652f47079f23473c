// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	version     = "0.1.0"
	callTimeout = 15 * time.Second
)

// description tells the host what this plugin is and which settings it needs.
func description() sdk.Description {
	return sdk.Description{
		Name: "example", Kind: "mail", Version: version, Title: "Example",
		Fields: []sdk.Field{
			{Name: "api_token", Required: true, Secret: true, Help: "token of the operator's application"},
			{Name: "api_url", Default: "https://api.example.com/v1", Help: "base URL of the API"},
			{Name: "login_url", Default: "https://login.example.com", Help: "base URL of the pages on which administrators agree and sign in"},
		},
		Hosts: []string{"{api_url}"},
		MailPlatform: sdk.PlatformFacts{
			BuiltinDomains: []string{"mail.example"},
			Hosts: sdk.PlatformHosts{
				Exchanges: []string{".mx.mail.example"}, Signers: []string{".dkim.mail.example"}, Verification: []string{".proof.mail.example"},
			},
			Administrator: "administrator",
			Withdrawal:    "Remove the application in the settings of your organization.",
			LeftRules:     "You find the rules in the settings of your organization, under mail flow.",
		},
		// This is the rate limit that the platform publishes. It applies to each tenant.
		Budgets: []sdk.Budget{{Key: "tenant", Limit: 600, Window: time.Minute}},
	}
}

// processState is shared by all calls. It keeps no settings and no secrets.
type processState struct {
	http  *http.Client
	waits *sdk.Waits // waits after a Retry-After, keyed by the fingerprint of the connection
}

func newProcessState() *processState {
	return &processState{http: sdk.NewHTTPClient(callTimeout), waits: sdk.NewWaits(nil)}
}

// platform implements sdk.MailPlatform for one connection.
type platform struct {
	base  string // URL of the API
	login string // URL of the pages for people
	token sdk.Secret
	http  *http.Client
}

// platform returns the mail platform for a connection. It fails if a setting or the token is
// invalid. It makes no request.
func (s *processState) platform(connection sdk.Connection) (sdk.MailPlatform, error) {
	for _, name := range []string{"api_url", "login_url"} {
		base, err := url.Parse(connection.Settings[name])
		if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
			return nil, sdk.Misconfigured(name, "it must be a URL such as https://api.example.com/v1")
		}
	}
	token := connection.Secrets["api_token"]
	if token.Empty() || strings.ContainsFunc(token.Reveal(), func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, sdk.Misconfigured("api_token", "it is missing or has invalid characters")
	}
	return platform{
		base: strings.TrimRight(connection.Settings["api_url"], "/"), login: strings.TrimRight(connection.Settings["login_url"], "/"), token: token,
		http: s.waits.Client(s.http, connection.Fingerprint()), // sends no request of this token during a Retry-After
	}, nil
}

// Check implements sdk.MailPlatform. It tests the token without a tenant.
func (p platform) Check(ctx context.Context) error {
	return p.call(ctx, http.MethodGet, "/application", nil, &struct{}{})
}

// For implements sdk.MailPlatform.
func (p platform) For(id sdk.TenantID) sdk.MailTenant { return mailTenant{platform: p, id: id} }
