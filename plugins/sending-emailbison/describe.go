// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	version  = "0.1.0"
	callTime = 15 * time.Second
)

func description() sdk.Description {
	return sdk.Description{
		Name: "emailbison", Kind: "sending", Version: version, Title: "EmailBison",
		Capabilities: []string{sdk.CanRefresh, sdk.CanDisconnect},
		Fields: []sdk.Field{
			{Name: "api_key", Account: true, Required: true, Secret: true, Help: "token of the type api-user, alone or as https://instance#token"},
			{Name: "instance_url", Account: true, Help: "the customer's EmailBison, as https://send.example.com; not needed where api_key names it"},
			{Name: "workspace_id", Account: true, Help: "id of the workspace that the token is expected to be of"},
			{Name: "allow_private", Default: "false", Help: "call instances on private addresses too, and on loopback by http; for test systems"},
		},
		// The published limit is said to be 3,000 in a minute for an instance,
		// which all of its customers share.
		Budgets: []sdk.Budget{{
			Key: "credential", Limit: 10, Window: time.Second,
			Costs: map[string]int{"check": 2}, // the user, and the workspaces
		}},
		FaultDomain: sdk.FaultCredential, // each instance is a server of its own
	}
}

// house is what lives as long as the process: a client that dials public
// addresses only, and one for operators who said that any will do.
type house struct{ public, private *http.Client }

func newHouse() *house {
	return &house{public: sdk.NewGuardedHTTPClient(callTime, false), private: sdk.NewGuardedHTTPClient(callTime, true)}
}

// platform is what one token reaches at one instance.
type platform struct {
	http      *http.Client
	instance  string // as in https://send.example.com
	token     sdk.Secret
	workspace string // the one that is expected, or ""
}

func (h *house) platform(c sdk.Connection) (sdk.SendingPlatform, error) {
	private, err := strconv.ParseBool(cmp.Or(c.Settings["allow_private"], "false"))
	if err != nil {
		return nil, sdk.Misconfigured("allow_private", "it is true or false")
	}
	p := &platform{http: h.public, workspace: c.Settings["workspace_id"]}
	if private {
		p.http = h.private
	}
	p.instance, p.token, err = readCredential(c, private)
	if err != nil {
		return nil, err
	}
	return p, nil
}
