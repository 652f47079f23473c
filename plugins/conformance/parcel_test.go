// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports/contract"
)

// TestSmallSendingPluginConforms runs SendingInProcess over a small plugin that is written as an
// author writes one.
func TestSmallSendingPluginConforms(t *testing.T) {
	conformance.SendingInProcess(t, parcelPlugin(), newParcelFixture)
}

func newParcelFixture(t testing.TB, newPlatform func(sdk.Connection) sdk.SendingPlatform) contract.SendingPlatformEnv {
	s := conformance.Simulate(t, openParcel)
	finish := func(t testing.TB, session sdk.SignInSession, state, address string) {
		s.Control(t, http.MethodPost, "/links", parcelLink{ID: session.ID, State: state, Address: address}, nil)
	}
	return contract.SendingPlatformEnv{
		Platform: newPlatform(s.Connection(nil, nil)),
		Refused:  newPlatform(s.Connection(nil, map[string]string{"api_key": "guessed-by-somebody"})),
		Absent:   newPlatform(s.Connection(map[string]string{"base_url": conformance.UnreachableURL(t)}, nil)),
		Secrets:  []string{s.Ready.Secrets["api_key"], "guessed-by-somebody"},
		Can:      []string{sdk.CanOAuth, sdk.CanRefresh, sdk.CanDisconnect},
		Sessions: true, AuthHosts: []string{s.Ready.Settings["auth_hosts"]},
		Looks: []sdk.Account{{State: sdk.AccountConnected}, {State: sdk.AccountFailed, HasError: true}, {State: sdk.AccountOther}},
		Put: func(t testing.TB, accounts ...sdk.Account) {
			states := map[sdk.AccountState]string{sdk.AccountConnected: "ok", sdk.AccountFailed: "bad", sdk.AccountOther: "strange"}
			var all []parcelAccount
			for _, a := range accounts {
				all = append(all, parcelAccount{Address: a.Address, Name: a.Name, State: states[a.State]})
			}
			s.Control(t, http.MethodPut, "/accounts", all, nil)
		},
		Held: func(t testing.TB) (addresses []string) {
			var all []parcelAccount
			s.Control(t, http.MethodGet, "/accounts", nil, &all)
			for _, a := range all {
				addresses = append(addresses, a.Address)
			}
			return addresses
		},
		SignIn:  func(t testing.TB, session sdk.SignInSession, address string) { finish(t, session, "done", address) },
		Decline: func(t testing.TB, session sdk.SignInSession) { finish(t, session, "denied", "") },
		Expire:  func(t testing.TB, session sdk.SignInSession) { finish(t, session, "over", "") },
		Fail:    s.Fail,
	}
}

// parcelSimulator simulates the API of Parcel, an invented sending platform.
type parcelSimulator struct {
	kit      *simulate.Kit
	url      string
	mu       sync.Mutex
	accounts []parcelAccount
	links    map[string]*parcelLink
	serial   int
}

type parcelAccount struct {
	ID, Address, Name, State string
	Rev                      int
}

type parcelLink struct{ ID, URL, State, Address string }

func openParcel(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, err := simulate.Open("parcel", o)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	p := &parcelSimulator{kit: kit, url: o.URL, links: map[string]*parcelLink{}}
	return kit.Handler(p, http.HandlerFunc(p.control)), simulate.Ready{
		Provider: "parcel", URL: o.URL, Secrets: map[string]string{"api_key": "the-key-of-parcel"},
		Settings: map[string]string{"base_url": o.URL, "auth_hosts": strings.TrimPrefix(o.URL, "http://")},
	}, nil
}

func (p *parcelSimulator) Call(r *http.Request, _ []byte) simulate.Call {
	return simulate.Call{Write: r.Method != http.MethodGet}
}

func (p *parcelSimulator) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(status)
}

func reply(w http.ResponseWriter, answer any) { _ = json.NewEncoder(w).Encode(answer) }

func (p *parcelSimulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case r.Header.Get("Authorization") != "Bearer the-key-of-parcel":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/me":
		reply(w, map[string]string{"workspace": "ws-1"})
	case r.URL.Path == "/accounts" && r.Method == http.MethodGet:
		p.list(w, r)
	case r.URL.Path == "/links":
		p.serial++
		l := &parcelLink{ID: fmt.Sprintf("link-%d", p.serial), State: "pending"}
		l.URL = p.url + "/authorize/" + l.ID
		p.links[l.ID] = l
		reply(w, map[string]any{"link": l, "until": p.kit.Now().Add(10 * time.Minute)})
	case r.Method == http.MethodDelete:
		p.accounts = slices.DeleteFunc(p.accounts, func(a parcelAccount) bool { return a.ID == id })
		reply(w, map[string]bool{"removed": true})
	case p.links[id] != nil:
		reply(w, map[string]any{"link": p.links[id]})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// list answers with a page of accounts. The parameter "like" finds parts of addresses.
func (p *parcelSimulator) list(w http.ResponseWriter, r *http.Request) {
	found := []parcelAccount{}
	for _, a := range p.accounts {
		if strings.Contains(strings.ToLower(a.Address), strings.ToLower(r.URL.Query().Get("like"))) {
			found = append(found, a)
		}
	}
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	from := min(page*100, len(found))
	reply(w, map[string]any{"page": page, "accounts": found[from:min(from+100, len(found))], "more": from+100 < len(found)})
}

// control serves the calls by which the fixture arranges accounts and links.
func (p *parcelSimulator) control(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.Method == http.MethodGet:
		reply(w, p.accounts)
	case strings.HasSuffix(r.URL.Path, "/links"):
		var link parcelLink
		_ = json.NewDecoder(r.Body).Decode(&link)
		p.links[link.ID].State, p.links[link.ID].Address = link.State, link.Address
		if link.State == "done" {
			p.put(parcelAccount{Address: link.Address, Name: "Anna Schmidt", State: "ok"})
		}
	default:
		var all []parcelAccount
		_ = json.NewDecoder(r.Body).Decode(&all)
		for _, a := range all {
			p.put(a)
		}
	}
}

func (p *parcelSimulator) put(a parcelAccount) {
	p.serial++
	a.ID, a.Rev = strconv.Itoa(p.serial), p.serial
	for i, o := range p.accounts {
		if strings.EqualFold(o.Address, a.Address) {
			a.ID = o.ID
			p.accounts[i] = a
			return
		}
	}
	p.accounts = append(p.accounts, a)
}
