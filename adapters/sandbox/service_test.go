// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// service is a fake of the parts of tenantry that a sandbox uses. It has accounts in memory, and
// the pages of the connect flow. The pages check the values that a browser must send.
type service struct {
	settings      map[access.AccountID]access.Settings
	ports.Consent // only ConsentURL is called

	mu                 sync.Mutex
	accounts           []access.Account
	keys               map[[32]byte]access.Key
	replaced           map[[32]byte]time.Time // until when a key that a rotation replaced works, by the key's hash
	owners             map[tenant.GUID]access.AccountID
	killed             []string
	enforceCalls       int
	wakeCalls          int
	dnsConnections     []dnsConnection
	confirmStatus      int // HTTP status of the confirmation, 0 for success
	refusedAssignments int // how many of the next calls of Assign are refused
	site               *httptest.Server
	loginURL           func() string
}

// dnsConnection has the arguments of a call of ConnectDNS.
type dnsConnection struct{ owner, provider, token string }

// token returns the token of the account's last DNS connection.
func (s *service) token(owner string) (token string) {
	for _, connection := range s.dnsConnections {
		if connection.owner == owner {
			token = connection.token
		}
	}
	return token
}

func newService(t testing.TB) *service {
	s := &service{settings: map[access.AccountID]access.Settings{}, keys: map[[32]byte]access.Key{}, owners: map[tenant.GUID]access.AccountID{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/tenants/connect-url", s.connectURL)
	mux.HandleFunc("GET /connect/microsoft365/callback", s.callback)
	mux.HandleFunc("GET /connect/microsoft365/signin", s.signInCallback)
	mux.HandleFunc("POST /connect/microsoft365/confirm", s.confirm)
	s.site = httptest.NewServer(mux)
	t.Cleanup(s.site.Close)
	return s
}

// services returns s as the services of a sandbox. s then uses the login URL of env.
func (s *service) services(env *sandbox.Environment) sandbox.Services {
	s.loginURL = func() string { return env.Settings()["fake"]["login_url"] }
	return sandbox.Services{
		Accounts: s, Keys: keys{service: s}, Consent: s, ManagedTenants: s,
		ConnectDNS: func(_ context.Context, owner access.AccountID, provider string, credential secret.Credential) error {
			s.dnsConnections = append(s.dnsConnections, dnsConnection{string(owner), provider, credential.Secrets["api_token"].Reveal()})
			return nil
		},
		Enforce:     func(context.Context) error { s.enforceCalls++; return nil },
		WakeDueJobs: func(context.Context) error { s.mu.Lock(); defer s.mu.Unlock(); s.wakeCalls++; return nil },
		KillPlugin:  func(name string) error { s.killed = append(s.killed, name); return nil },
		APIURL:      s.site.URL, AdminURL: "http://127.0.0.1:9", KeyPrefix: "tny",
	}
}

func (s *service) ConsentURL(_ context.Context, state, redirect string) (string, error) {
	return s.loginURL() + "/consent?" + url.Values{"state": {state}, "redirect": {redirect}}.Encode(), nil
}

func (s *service) connectURL(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	_, known := s.keys[access.HashKey(secretOf(key))]
	s.mu.Unlock()
	if !known {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"code":"invalid_api_key","detail":"the API key is not valid"}`)
		return
	}
	consentURL, _ := s.ConsentURL(r.Context(), "s1", s.site.URL+"/connect/microsoft365/callback")
	fmt.Fprintf(w, `{"connect_url":%q}`, consentURL)
}

func (s *service) callback(w http.ResponseWriter, r *http.Request) {
	received := r.URL.Query()
	if received.Get("state") != "s1" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "<h1>Link not valid</h1>")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "flow", Value: received.Get("tenant"), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	signInQuery := url.Values{"state": {"s2"}, "redirect": {s.site.URL + "/connect/microsoft365/signin"}, "hint": {"admin@" + received.Get("tenant")}}
	http.Redirect(w, r, s.loginURL()+"/signin?"+signInQuery.Encode(), http.StatusFound)
}

func (s *service) signInCallback(w http.ResponseWriter, r *http.Request) {
	flow, err := r.Cookie("flow")
	if err != nil || r.URL.Query().Get("code") != "admin@"+flow.Value {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	fmt.Fprint(w, `<h1>Connect?</h1><form method="post" action="confirm"><input type="hidden" name="csrf" value="c1">
<button name="decision" value="connect">Connect</button><button name="decision" value="cancel">Cancel</button></form>`)
}

func (s *service) confirm(w http.ResponseWriter, r *http.Request) {
	if flow, err := r.Cookie("flow"); err != nil || flow.Value == "" || r.PostFormValue("csrf") != "c1" || r.PostFormValue("decision") != "connect" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if s.confirmStatus != 0 {
		w.WriteHeader(s.confirmStatus)
		fmt.Fprint(w, "<h1>Tenant limit\n reached</h1>")
		return
	}
	fmt.Fprint(w, "<h1>Connected</h1>")
}

func (s *service) ChangeSettings(_ context.Context, id access.AccountID, change func(access.Settings) (access.Settings, error)) (access.Settings, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, err := change(s.settings[id])
	if err == nil {
		s.settings[id] = changed
	}
	return changed, err
}

func (s *service) CreateAccount(_ context.Context, email, plan string, slots int, now time.Time) (access.Account, error) {
	if plan == "nonsense" {
		return access.Account{}, fault.InvalidRequest.With("no such plan")
	}
	a := access.Account{ID: access.AccountID(fmt.Sprintf("account-%d", len(s.accounts)+1)), Email: email, Plan: access.Plan{Name: plan, TenantSlots: slots}, OwnSlots: slots, Active: true, CreatedAt: now}
	s.accounts = append(s.accounts, a)
	return a, nil
}

// FindAccount returns the account with an id, or the newest account with an address. It also
// returns closed accounts.
func (s *service) FindAccount(_ context.Context, idOrEmail string) (access.Account, error) {
	for _, a := range slices.Backward(s.accounts) {
		if string(a.ID) == idOrEmail || a.Email == idOrEmail {
			return a, nil
		}
	}
	return access.Account{}, fault.AccountNotFound.With("no such account")
}

func (s *service) ChangePlan(_ context.Context, id access.AccountID, plan string, slots int) (access.Account, error) {
	return s.change(id, func(a *access.Account) { a.Plan, a.OwnSlots = access.Plan{Name: plan, TenantSlots: slots}, slots })
}

func (s *service) SetActive(_ context.Context, id access.AccountID, active bool) (access.Account, error) {
	return s.change(id, func(a *access.Account) { a.Active = active })
}

func (s *service) change(id access.AccountID, edit func(*access.Account)) (access.Account, error) {
	for i, a := range s.accounts {
		if a.ID == id {
			edit(&s.accounts[i])
			return s.accounts[i], nil
		}
	}
	return access.Account{}, fault.AccountNotFound.With("no such account")
}

func (s *service) AddKey(_ context.Context, k access.Key) error {
	acc, err := s.FindAccount(context.Background(), string(k.Account))
	if err == nil {
		err = acc.CheckOpen()
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[k.Hash] = k
	return nil
}

func (s *service) Assign(_ context.Context, acc access.Account, id tenant.GUID) (tenant.Tenant, error) {
	if s.refusedAssignments > 0 {
		s.refusedAssignments--
		return tenant.Tenant{}, fault.AccessDenied.With("not yet")
	}
	if _, assigned := s.owners[id]; assigned {
		return tenant.Tenant{}, fault.TenantHeld.With("held")
	}
	s.owners[id] = acc.ID
	return tenant.Tenant{}, nil
}

func (s *service) Withdraw(_ context.Context, id tenant.GUID) (tenants.WithdrawResult, error) {
	owner, assigned := s.owners[id]
	if !assigned {
		return tenants.WithdrawResult{}, fault.TenantNotFound.With("not assigned")
	}
	delete(s.owners, id)
	return tenants.WithdrawResult{Account: owner}, nil
}

// keys implements the method of ports.Keys that the sandbox calls.
type keys struct {
	ports.Keys
	service *service
}

func (k keys) Caller(_ context.Context, hash [32]byte) (access.Caller, error) {
	k.service.mu.Lock()
	defer k.service.mu.Unlock()
	key, known := k.service.keys[hash]
	if !known {
		return access.Caller{}, access.UnknownKey()
	}
	return access.Caller{Account: access.Account{ID: key.Account}, SecretUntil: k.service.replaced[hash]}, nil
}
