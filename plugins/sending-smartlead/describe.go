// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	version     = "0.1.0"
	baseURL     = "https://server.smartlead.ai/api/v1"
	callTimeout = 15 * time.Second
	// maxKeyLength is several times the length of any known key.
	maxKeyLength = 256
)

// requestCosts has the number of requests of each operation that usually makes more than one
// request. A check lists one account, and then reads the account's user or the clients.
var requestCosts = map[string]int{"check": 2}

func description() sdk.Description {
	return sdk.Description{
		Name: "smartlead", Kind: "sending", Version: version, Title: "Smartlead",
		Capabilities: []string{sdk.CanRefresh, sdk.CanDisconnect},
		Hosts:        []string{"{base_url}"},
		Fields: []sdk.Field{
			{Name: "api_key", Account: true, Required: true, Secret: true, Help: "API key of Smartlead"},
			{Name: "workspace_id", Account: true, Help: "number of a client of an agency; only the accounts of this client are used"},
			{Name: "base_url", Default: baseURL, Help: "Smartlead's API"},
		},
		// The smallest published plan allows 60 requests per minute, 10 per second and 1,000 per
		// hour. The budget is lower, because requests that are sent at even intervals can arrive in
		// bursts.
		Budgets: []sdk.Budget{
			{Key: "credential", Limit: 50, Window: time.Minute, Costs: requestCosts},
			{Key: "credential", Limit: 8, Window: time.Second, Costs: requestCosts},
			{Key: "credential", Limit: 900, Window: time.Hour, Costs: requestCosts},
		},
	}
}

// processState has the state that all connections of the process share.
type processState struct {
	http  *http.Client
	waits *sdk.Waits // pauses that Smartlead requires, keyed by sdk.KeyScope
	now   func() time.Time
}

func newProcessState() *processState {
	return &processState{http: sdk.NewHTTPClient(callTimeout), waits: sdk.NewWaits(nil), now: time.Now}
}

// platform implements sdk.SendingPlatform for one API key.
type platform struct {
	http       *http.Client
	waits      *sdk.Waits
	scope      string // the scope of this key in waits
	now        func() time.Time
	base       string
	key        sdk.Secret
	configured workspace // the setting workspace_id
}

// newPlatform returns the platform of a connection. It fails if a setting or the key is invalid. It
// sends no request.
func (s *processState) newPlatform(connection sdk.Connection) (sdk.SendingPlatform, error) {
	base := strings.TrimRight(cmp.Or(connection.Settings["base_url"], baseURL), "/")
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, sdk.Misconfigured("base_url", "it must be an http or https URL without user information and query")
	}
	key := connection.Secrets["api_key"]
	if !isValidKey(key.Reveal()) {
		return nil, sdk.Misconfigured("api_key", "it is missing, too long, or contains an invalid character")
	}
	configured, ok := parseWorkspace(connection.Settings["workspace_id"])
	if !ok {
		return nil, sdk.Misconfigured("workspace_id", "it must be the number of a client")
	}
	scope := sdk.KeyScope(base, key)
	return &platform{
		http: s.waits.Client(s.http, scope), waits: s.waits, scope: scope, now: s.now, base: base, key: key, configured: configured,
	}, nil
}

// isValidKey reports whether text may be a key. The key is a part of the URL. If a URL is too long
// or looks like an attack, a firewall in front of Smartlead answers with an HTML page. Such a page
// counts as Broken, and five of these pages in a row open the circuit breaker for all customers.
func isValidKey(text string) bool {
	return text != "" && len(text) <= maxKeyLength && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("<>\"'`;(){}[]\\$|&%", r)
	})
}

// workspace is the setting workspace_id. Smartlead has no workspaces, so workspace_id is a client
// or a user. client is the number of an agency's client. If client is set, lists contain only the
// accounts of this client. user is the number of the key's user. It is written "user:4001" and has
// no effect on requests. At most one of the two is set.
type workspace struct{ client, user string }

var workspaceID = regexp.MustCompile(`^(user:)?([0-9]{1,19})$`)

// parseWorkspace parses a workspace_id: an empty text, a number, or "user:" and a number. For any
// other text, ok is false.
func parseWorkspace(id string) (w workspace, ok bool) {
	switch parts := workspaceID.FindStringSubmatch(id); {
	case id == "":
		return workspace{}, true
	case parts == nil:
		return workspace{}, false
	case parts[1] != "":
		return workspace{user: parts[2]}, true
	default:
		return workspace{client: parts[2]}, true
	}
}
