// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// TestSmallSendingPluginConforms runs SendingInProcess over a small plugin that is written as an
// author writes one.
func TestSmallSendingPluginConforms(t *testing.T) {
	conformance.SendingInProcess(t, parcelPlugin(), newParcelFixture)
}

func newParcelFixture(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
	s := conformance.SimulateSending(t, parcel.Open, parcelPlugin().Sending)
	return s.Fixture(parcelPlugin().Describe, newPlatform)
}

type (
	parcelRequest = simulate.Request[string, parcelAccount, struct{}]
	parcelState   = simulate.State[string, parcelAccount, struct{}]
)

// parcel simulates the API of Parcel, an invented sending platform.
var parcel = simulate.Platform[string, parcelAccount, struct{}]{
	Name: "parcel", Title: "Parcel", Workspace: "ws-1",
	Fresh: func(time.Time) parcelState { return parcelState{Keys: map[string]string{"the-key-of-parcel": "ws-1"}} },
	Ready: func(url, host string) simulate.Ready {
		return simulate.Ready{Secrets: map[string]string{"api_key": "the-key-of-parcel"}, Settings: map[string]string{"base_url": url, "auth_hosts": host}}
	},
	Admit: func(q *parcelRequest) simulate.Answer {
		if q.Workspace = q.State.Keys[strings.TrimPrefix(q.HTTP.Header.Get("Authorization"), "Bearer ")]; q.Workspace == "" {
			return simulate.Answer{Status: http.StatusUnauthorized}
		}
		return simulate.Answer{}
	},
	Routes: []simulate.Route[string, parcelAccount, struct{}]{
		{On: "GET /me", Serve: func(q *parcelRequest) simulate.Answer {
			return simulate.OK(map[string]string{"workspace": q.Workspace})
		}},
		{On: "GET /accounts", Serve: listParcelAccounts},
		{On: "DELETE /accounts/{id}", Serve: func(q *parcelRequest) simulate.Answer {
			q.State.Remove(q.Workspace, q.Path("id"))
			return simulate.OK(map[string]bool{"removed": true})
		}},
		{On: "POST /links", Serve: func(q *parcelRequest) simulate.Answer {
			id, url := q.StartSignIn(q.Workspace, 10*time.Minute)
			q.State.SignIns[id].ID = id
			return simulate.OK(map[string]any{"link": parcelLink{ID: id, URL: url, State: "pending"}, "until": q.State.SignIns[id].ExpiresAt})
		}},
		{On: "GET /links/{id}", Serve: showParcelLink},
	},
	NotFound:     func(*parcelRequest) simulate.Answer { return simulate.Answer{Status: http.StatusNotFound} },
	PlannedFault: func(status, _ int) simulate.Answer { return simulate.Answer{Status: status} },
	NewAccount: func(_ *parcelRequest, _, address string) parcelAccount {
		return parcelAccount{ID: strings.ToLower(address), Address: address, Name: simulate.DisplayName(address), State: "ok"}
	},
	Touch:    func(a *parcelAccount, _ time.Time) { a.Rev++ },
	Page:     simulate.Page{Path: "/authorize", Operation: "authorize"},
	SignedIn: func(q *parcelRequest, in, address string) { q.Account(in, address, 0).State = "ok" },
	Suite: simulate.Suite{
		Address: "Address", Name: map[string]any{"Name": "$name"},
		States: []simulate.SuiteState{
			{State: "connected", Members: map[string]any{"State": "ok"}},
			{State: "failed", HasError: true, Members: map[string]any{"State": "bad"}},
			{State: "other", Members: map[string]any{"State": "strange"}},
		},
		Sessions: true, Declines: true, Expire: &simulate.SuiteCall{Method: http.MethodPost, Path: "/links/$session/expire"},
	},
	Controls: map[string]func(*parcelRequest) (any, error){
		"POST /links/{id}/expire": func(q *parcelRequest) (any, error) {
			q.State.SignIns[q.Path("id")].ExpiresAt = q.Now
			return nil, nil
		},
	},
}

type parcelAccount struct {
	ID, Address, Name, State string
	Rev                      int
}

type parcelLink struct{ ID, URL, State, Address string }

func showParcelLink(q *parcelRequest) simulate.Answer {
	started := q.State.SignIns[q.Path("id")]
	if started == nil {
		return simulate.Answer{Status: http.StatusNotFound}
	}
	state := "over"
	switch {
	case started.Open(q.Now):
		state = "pending"
	case started.Used && started.Address == "":
		state = "denied"
	case started.Used:
		state = "done"
	}
	return simulate.OK(map[string]any{"link": parcelLink{ID: q.Path("id"), State: state, Address: started.Address}})
}

// listParcelAccounts answers with a page of accounts. The parameter "like" finds parts of addresses.
func listParcelAccounts(q *parcelRequest) simulate.Answer {
	var found []*parcelAccount
	for _, a := range q.Visible(q.Workspace) {
		if strings.Contains(strings.ToLower(a.Address), strings.ToLower(q.Query("like"))) {
			found = append(found, a)
		}
	}
	page, _ := q.Number("page", 0)
	return simulate.OK(map[string]any{"page": page, "accounts": simulate.Slice(found, page*100, 100), "more": page*100+100 < len(found)})
}
