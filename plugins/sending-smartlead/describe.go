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
	version  = "0.1.0"
	baseURL  = "https://server.smartlead.ai/api/v1"
	callTime = 15 * time.Second
	// longestKey is some times as long as any key that was seen.
	longestKey = 256
)

// costs are the requests of a call: a check reads an account, and whose it is.
var costs = map[string]int{"check": 2}

func description() sdk.Description {
	return sdk.Description{
		Name: "smartlead", Kind: "sending", Version: version, Title: "Smartlead",
		Capabilities: []string{sdk.CanRefresh, sdk.CanDisconnect},
		Fields: []sdk.Field{
			{Name: "api_key", Account: true, Required: true, Secret: true, Help: "API key of Smartlead"},
			{Name: "workspace_id", Account: true, Help: "id of a client of an agency, to keep to the client's accounts"},
			{Name: "base_url", Default: baseURL, Help: "Smartlead's API"},
		},
		// The smallest published plan has 60, 10 and 1,000. What leaves evenly may
		// arrive less so.
		Budgets: []sdk.Budget{
			{Key: "credential", Limit: 50, Window: time.Minute, Costs: costs},
			{Key: "credential", Limit: 8, Window: time.Second, Costs: costs},
			{Key: "credential", Limit: 900, Window: time.Hour, Costs: costs},
		},
	}
}

// house is what lives as long as the process.
type house struct {
	http *http.Client
	now  func() time.Time
}

func newHouse() *house { return &house{http: sdk.NewHTTPClient(callTime), now: time.Now} }

// platform is what one key reaches at Smartlead.
type platform struct {
	*house
	base  string
	key   sdk.Secret
	given workspace
}

func (h *house) platform(c sdk.Connection) (sdk.SendingPlatform, error) {
	base := strings.TrimRight(cmp.Or(c.Settings["base_url"], baseURL), "/")
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, sdk.Misconfigured("base_url", "it is a URL")
	}
	key := c.Secrets["api_key"]
	if !isKey(key.Reveal()) {
		return nil, sdk.Misconfigured("api_key", "it is missing or holds what no key has")
	}
	given, ok := readWorkspace(c.Settings["workspace_id"])
	if !ok {
		return nil, sdk.Misconfigured("workspace_id", "it is the number of a client")
	}
	return &platform{house: h, base: base, key: key, given: given}, nil
}

// isKey reports whether a text may be a key. It becomes part of the URL, which a
// filter in front of Smartlead reads: what looks like an attack, or is too long,
// would bring pages of its own, five of which open the circuit of all customers.
func isKey(text string) bool {
	return text != "" && len(text) <= longestKey && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("<>\"'`;(){}[]\\$|&%", r)
	})
}

// workspace is what stands for one: Smartlead has none. A client is one that an
// agency chose. A user is whose key it is, which keeps the key to nothing.
type workspace struct{ client, user string }

var workspaceID = regexp.MustCompile(`^(user:)?([0-9]{1,19})$`)

func readWorkspace(id string) (workspace, bool) {
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
