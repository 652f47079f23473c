// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/cloudflare/cloudflare-go"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	version     = "0.1.0"
	apiURL      = "https://api.cloudflare.com/client/v4"
	callTimeout = 15 * time.Second
)

var accountIDPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

func description() sdk.Description {
	return sdk.Description{
		Name: "cloudflare", Kind: "dns", Version: version, Title: "Cloudflare",
		Capabilities: []string{"atomic"},
		NameServers:  []string{"*.ns.cloudflare.com", "*.foundationdns.com", "*.foundationdns.net", "*.foundationdns.org"},
		Hosts:        []string{"{api_url}"},
		Fields: []sdk.Field{
			{Name: "api_token", Account: true, Required: true, Secret: true, Help: "API token with Zone: DNS: Edit and Zone: Zone: Read for the zones"},
			{Name: "account_id", Account: true, Help: "account id, only for a token that belongs to an account instead of a user"},
			{Name: "api_url", Default: apiURL, Help: "Cloudflare's API"},
		},
		Budgets: []sdk.Budget{{
			Key: "credential", Limit: maxCalls, Window: rateWindow,
			// The operation apply reads, writes and reads again. The operation check reads the
			// token, zones and records.
			Costs: map[string]int{"check": 3, "apply": 3},
		}},
	}
}

// processState has the state that all calls of the process share: the HTTP client, the locks of
// zones, and the budgets and waits of tokens.
type processState struct {
	http    *http.Client
	locks   *sdk.ZoneLocks
	budgets *budgets
	waits   *sdk.Waits // pauses after a Retry-After, keyed by the fingerprint of the connection
}

func newProcessState() *processState {
	return &processState{http: sdk.NewHTTPClient(callTimeout), locks: sdk.NewZoneLocks(), budgets: newBudgets(time.Now), waits: sdk.NewWaits(nil)}
}

// provider implements sdk.DNSProvider for one token.
type provider struct {
	api     *cloudflare.API
	account string // the account id, if the token belongs to an account, otherwise empty
	locks   *sdk.ZoneLocks
}

// provider returns the provider for a connection. It fails if a setting or the token is invalid.
func (s *processState) provider(connection sdk.Connection) (sdk.DNSProvider, error) {
	base := strings.TrimRight(cmp.Or(connection.Settings["api_url"], apiURL), "/")
	if u, err := url.Parse(base); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, sdk.Misconfigured("api_url", "it must be a URL such as "+apiURL)
	}
	token := strings.TrimSpace(connection.Secrets["api_token"].Reveal())
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r == ' ' || unicode.IsControl(r) }) {
		return nil, sdk.Misconfigured("api_token", "it is missing, or contains a space or a control character")
	}
	account := connection.Settings["account_id"]
	if account != "" && !accountIDPattern.MatchString(account) {
		return nil, sdk.Misconfigured("account_id", "it must have 32 lower-case hexadecimal digits")
	}
	client := *s.http
	fingerprint := connection.Fingerprint()
	client.Transport = budgetTransport{s.http.Transport, s.budgets.forToken(fingerprint), s.waits, fingerprint}
	// The library must neither repeat nor limit calls itself, because the host repeats calls and
	// budgetTransport limits them. UsingRateLimit takes calls per second, so maxCalls limits
	// nothing in practice.
	api, err := cloudflare.NewWithAPIToken(token, cloudflare.BaseURL(base), cloudflare.HTTPClient(&client),
		cloudflare.UsingRetryPolicy(0, 0, 0), cloudflare.UsingRateLimit(maxCalls), cloudflare.UserAgent("tenantry/"+version))
	if err != nil {
		return nil, sdk.Misconfigured("api_token", "it cannot be used in a request")
	}
	return &provider{api: api, account: account, locks: s.locks}, nil
}
