// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// defaults are the values of the settings that are not set. A setting without an entry has no
// default.
var defaults = map[string]string{
	"home_tenant":    login.NoHomeTenant,
	"login_url":      "https://login.microsoftonline.com",
	"graph_url":      "https://graph.microsoft.com",
	"exchange_url":   "https://outlook.office365.com",
	"graph_scope":    "https://graph.microsoft.com/.default",
	"exchange_scope": "https://outlook.office365.com/.default",
	"pacing":         "1",
}

func description() sdk.Description {
	return sdk.Description{
		Name: "microsoft365", Kind: "mail", Version: call.Version, Title: "Microsoft 365",
		Hosts: []string{"{login_url}", "{graph_url}", "{exchange_url}"},
		Fields: []sdk.Field{
			{Name: "client_id", Required: true, Help: "application (client) id of the app registration"},
			{Name: "application_name", Help: "name of the app registration; the last connect page shows it, so that administrators find the application"},
			{Name: "client_secret", Secret: true, Help: "client secret; ignored if a certificate is set"},
			{Name: "client_certificate", Secret: true, Help: "PEM with the certificate and its RSA private key"},
			settingField("home_tenant", "tenant in which the application is registered, by id or domain; `tenantry doctor` requests a token there"),
			{Name: "credential_expires", Help: "day on which the client secret expires, in the form 2027-01-31; `tenantry doctor` warns before this day"},
			settingField("login_url", "URL at which administrators sign in, and from which tokens are requested; different for a sovereign cloud"),
			settingField("graph_url", "URL of Microsoft Graph; /v1.0 is added if it is missing"),
			settingField("exchange_url", "URL of the Exchange Online admin endpoint"),
			settingField("graph_scope", "scope of tokens for Graph, and of the consent"),
			settingField("exchange_scope", "scope of tokens for Exchange"),
			settingField("pacing", "limit for the average number of Exchange calls per second in each tenant, for each process of the plugin; 0 sets no limit"),
		},
		MailPlatform: sdk.PlatformFacts{
			BuiltinDomains: []string{"onmicrosoft.com"},
			Hosts: sdk.PlatformHosts{
				Exchanges:    []string{".mail.protection.outlook.com", ".mx.microsoft"},
				Signers:      []string{".onmicrosoft.com", ".dkim.mail.microsoft"},
				Verification: []string{".msv1.invalid"}, // below a top-level domain in which no names exist (RFC 6761)
			},
			ApplicationField: "client_id",
			Administrator:    "Global Administrator",
			Withdrawal:       "In the Microsoft Entra admin center, open Enterprise applications, then All applications. Find the application that you approved by its Application ID, and delete it.",
			LeftRules:        "Open Mail flow, Rules in the Exchange admin center.",
		},
		// The directory allows an application 3,000 writes in 150 s in one tenant. The budget
		// counts all calls, because it cannot tell which of them write to the directory. Microsoft
		// publishes no general limit for Exchange, so the plugin itself limits the rate of the
		// cmdlets (see exchange.Limiter).
		Budgets: []sdk.Budget{
			{Key: "tenant", Limit: 3000, Window: 150 * time.Second},
			// The message trace has a separate quota in each tenant. One call of Sent reads one
			// page.
			{Key: "tenant", Limit: 100, Window: 5 * time.Minute, Only: []string{"sent"}},
		},
	}
}

func settingField(name, help string) sdk.Field {
	return sdk.Field{Name: name, Default: defaults[name], Help: help}
}

type settings struct {
	loginURL, graphURL, exchangeURL string
	graphScope, exchangeScope       string
	homeTenant                      string
	cmdletsPerSecond                float64
	credential                      login.Credential
}

func readSettings(connection sdk.Connection) (settings, error) {
	value := func(name string) string {
		if v := strings.TrimSpace(connection.Settings[name]); v != "" {
			return v
		}
		return defaults[name]
	}
	s := settings{
		loginURL: strings.TrimRight(value("login_url"), "/"), graphURL: graph.BaseURL(value("graph_url")),
		exchangeURL: strings.TrimRight(value("exchange_url"), "/"),
		graphScope:  value("graph_scope"), exchangeScope: value("exchange_scope"), homeTenant: value("home_tenant"),
		credential: login.Credential{
			ClientID: value("client_id"), Secret: connection.Secrets["client_secret"], Certificate: connection.Secrets["client_certificate"],
		},
	}
	for name, address := range map[string]string{"login_url": s.loginURL, "graph_url": s.graphURL, "exchange_url": s.exchangeURL} {
		if u, err := url.Parse(address); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
			return settings{}, login.Misconfigured(name)
		}
	}
	if !login.IsTenantName(s.homeTenant) {
		return settings{}, login.Misconfigured("home_tenant")
	}
	var err error
	if s.cmdletsPerSecond, err = strconv.ParseFloat(value("pacing"), 64); err != nil || math.IsNaN(s.cmdletsPerSecond) {
		return settings{}, login.Misconfigured("pacing")
	}
	return s, s.credential.Check()
}
