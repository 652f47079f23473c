// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// parcelPlugin returns a plugin for Parcel.
func parcelPlugin() sdk.Plugin {
	client := sdk.NewHTTPClient(20 * time.Second)
	return sdk.Plugin{
		Describe: sdk.Description{
			Name: "parcel", Kind: "sending", Version: "1.0.0", Title: "Parcel",
			Capabilities: []string{sdk.CanOAuth, sdk.CanRefresh, sdk.CanDisconnect},
			Fields: []sdk.Field{
				{Name: "api_key", Account: true, Secret: true, Required: true, Help: "key"},
				{Name: "workspace_id", Account: true, Help: "workspace"},
				{Name: "base_url", Default: "https://parcel.example", Help: "URL"},
				{Name: "auth_hosts", Default: "login.microsoftonline.com", Help: "hosts"},
			},
			Budgets: []sdk.Budget{{Key: "egress", Limit: 120, Window: time.Minute, Only: []string{"start_sign_in"}}},
		},
		Sending: func(c sdk.Connection) (sdk.SendingPlatform, error) { return parcelClient{client, c}, nil },
	}
}

type parcelClient struct {
	http *http.Client
	c    sdk.Connection
}

var errNotFound = errors.New("not found")

// call makes one request and decodes the answer into out. It fails when complete reports false.
func (p parcelClient) call(ctx context.Context, method, path string, out any, complete func() bool) error {
	request, err := http.NewRequestWithContext(ctx, method, p.c.Settings["base_url"]+path, nil)
	if err != nil {
		return sdk.Misconfigured("base_url", "it is not a URL")
	}
	request.Header.Set("Authorization", "Bearer "+p.c.Secrets["api_key"].Reveal())
	response, err := p.http.Do(request)
	if err != nil {
		return sdk.TransportError(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := sdk.StatusError(response.StatusCode, response.Header, time.Now()); err != nil {
		return err
	}
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return sdk.CredentialRefused("401")
	case http.StatusNotFound:
		return errNotFound
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return sdk.TransportError(err)
	}
	if json.Unmarshal(body, out) != nil || !complete() {
		return sdk.BrokenAnswer("shape")
	}
	return nil
}

func (p parcelClient) Check(ctx context.Context) (sdk.Reach, error) {
	var me struct{ Workspace string }
	if err := p.call(ctx, http.MethodGet, "/me", &me, func() bool { return me.Workspace != "" }); err != nil {
		return sdk.Reach{}, err
	}
	return sdk.Reach{Workspaces: []sdk.Workspace{{ID: me.Workspace}}}, nil
}

type parcelPage struct {
	Page     int
	Accounts []parcelAccount
	More     bool
}

func (p parcelClient) page(ctx context.Context, query url.Values) (page parcelPage, err error) {
	err = p.call(ctx, http.MethodGet, "/accounts?"+query.Encode(), &page, func() bool { return page.Accounts != nil })
	if requested, _ := strconv.Atoi(query.Get("page")); err == nil && page.Page != requested {
		err = sdk.BrokenAnswer("not the requested page")
	}
	return page, err
}

func toAccount(a parcelAccount) sdk.Account {
	states := map[string]sdk.AccountState{"ok": sdk.AccountConnected, "bad": sdk.AccountFailed}
	to := sdk.Account{ID: a.ID, Address: a.Address, Name: a.Name, State: states[a.State], Stamp: strconv.Itoa(a.Rev)}
	if to.State == "" {
		to.State = sdk.AccountOther
	}
	to.HasError = to.State == sdk.AccountFailed
	return to
}

func (p parcelClient) Account(ctx context.Context, address string) (sdk.Account, error) {
	page, err := p.page(ctx, url.Values{"like": {address}})
	for _, a := range page.Accounts {
		if err == nil && integration.SameAddress(a.Address, address) {
			return toAccount(a), nil
		}
	}
	return sdk.Account{}, err
}

func (p parcelClient) Accounts(ctx context.Context, cursor string) (sdk.Page, error) {
	page, err := p.page(ctx, url.Values{"page": {cursor}})
	if err != nil {
		return sdk.Page{}, err
	}
	var to sdk.Page
	for _, a := range page.Accounts {
		to.Accounts = append(to.Accounts, toAccount(a))
	}
	if page.More {
		to.Next = strconv.Itoa(page.Page + 1)
	}
	return to, nil
}

type parcelTicket struct {
	Link  *parcelLink
	Until time.Time
}

func (p parcelClient) StartSignIn(ctx context.Context, _ string) (sdk.SignInSession, error) {
	var ticket parcelTicket
	if err := p.call(ctx, http.MethodPost, "/links", &ticket, func() bool { return ticket.Link != nil }); err != nil {
		return sdk.SignInSession{}, err
	}
	if !integration.AuthURL(ticket.Link.URL, strings.Split(p.c.Settings["auth_hosts"], ",")) {
		return sdk.SignInSession{}, sdk.BrokenAnswer("a link to a host that is not allowed")
	}
	return sdk.SignInSession{ID: ticket.Link.ID, URL: ticket.Link.URL, ExpiresAt: ticket.Until}, nil
}

func (p parcelClient) SignIn(ctx context.Context, session string) (sdk.Progress, error) {
	var ticket parcelTicket
	err := p.call(ctx, http.MethodGet, "/links/"+url.PathEscape(session), &ticket, func() bool { return ticket.Link != nil })
	switch {
	case errors.Is(err, errNotFound):
		return sdk.Progress{State: sdk.SignInExpired}, nil
	case err != nil:
		return sdk.Progress{}, err
	}
	progress := sdk.Progress{Address: ticket.Link.Address, State: map[string]sdk.SignInState{
		"pending": sdk.SignInPending, "done": sdk.SignInSucceeded, "denied": sdk.SignInFailed, "over": sdk.SignInExpired,
	}[ticket.Link.State]}
	if progress.State == sdk.SignInFailed {
		progress.Reason = "access_denied"
	}
	return progress, nil
}

func (p parcelClient) Remove(ctx context.Context, account string) error {
	var answer struct{ Removed bool }
	return p.call(ctx, http.MethodDelete, "/accounts/"+url.PathEscape(account), &answer, func() bool { return answer.Removed })
}
