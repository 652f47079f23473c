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

// parcelPlugin is a plugin for parcel.
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

// ask makes one call and reads its answer into out, which knows whether it is
// complete.
func (p parcelClient) ask(ctx context.Context, method, path string, out any, complete func() bool) error {
	request, err := http.NewRequestWithContext(ctx, method, p.c.Settings["base_url"]+path, nil)
	if err != nil {
		return sdk.Misconfigured("base_url", "it is no URL")
	}
	request.Header.Set("Authorization", "Bearer "+p.c.Secrets["api_key"].Reveal())
	answer, err := p.http.Do(request)
	if err != nil {
		return sdk.NoAnswer(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if err := sdk.TroubleOf(answer.StatusCode, answer.Header, time.Now()); err != nil {
		return err
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return sdk.CredentialRefused("401")
	case http.StatusNotFound:
		return errNotFound
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return sdk.NoAnswer(err)
	}
	if json.Unmarshal(body, out) != nil || !complete() {
		return sdk.BrokenBy("shape")
	}
	return nil
}

func (p parcelClient) Check(ctx context.Context) (sdk.Reach, error) {
	var me struct{ Workspace string }
	if err := p.ask(ctx, http.MethodGet, "/me", &me, func() bool { return me.Workspace != "" }); err != nil {
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
	err = p.ask(ctx, http.MethodGet, "/accounts?"+query.Encode(), &page, func() bool { return page.Accounts != nil })
	if asked, _ := strconv.Atoi(query.Get("page")); err == nil && page.Page != asked {
		err = sdk.BrokenBy("another page than asked for")
	}
	return page, err
}

func parcelState(a parcelAccount) sdk.Account {
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
			return parcelState(a), nil
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
		to.Accounts = append(to.Accounts, parcelState(a))
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
	var made parcelTicket
	if err := p.ask(ctx, http.MethodPost, "/links", &made, func() bool { return made.Link != nil }); err != nil {
		return sdk.SignInSession{}, err
	}
	if !integration.AuthURL(made.Link.URL, strings.Split(p.c.Settings["auth_hosts"], ",")) {
		return sdk.SignInSession{}, sdk.BrokenBy("a link elsewhere")
	}
	return sdk.SignInSession{ID: made.Link.ID, URL: made.Link.URL, ExpiresAt: made.Until}, nil
}

func (p parcelClient) SignIn(ctx context.Context, session string) (sdk.Progress, error) {
	var now parcelTicket
	err := p.ask(ctx, http.MethodGet, "/links/"+url.PathEscape(session), &now, func() bool { return now.Link != nil })
	switch {
	case errors.Is(err, errNotFound):
		return sdk.Progress{State: sdk.SignInExpired}, nil
	case err != nil:
		return sdk.Progress{}, err
	}
	to := sdk.Progress{Address: now.Link.Address, State: map[string]sdk.SignInState{
		"pending": sdk.SignInPending, "done": sdk.SignInSucceeded, "denied": sdk.SignInFailed, "over": sdk.SignInExpired,
	}[now.Link.State]}
	if to.State == sdk.SignInFailed {
		to.Reason = "access_denied"
	}
	return to, nil
}

func (p parcelClient) Remove(ctx context.Context, account string) error {
	var done struct{ Removed bool }
	return p.ask(ctx, http.MethodDelete, "/accounts/"+url.PathEscape(account), &done, func() bool { return done.Removed })
}
