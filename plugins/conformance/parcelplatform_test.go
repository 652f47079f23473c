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
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// parcel is a small sending platform's API, as simulators serve one.
type parcel struct {
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
	p := &parcel{kit: kit, url: o.URL, links: map[string]*parcelLink{}}
	return kit.Handler(p, http.HandlerFunc(p.control)), simulate.Ready{
		Provider: "parcel", URL: o.URL, Secrets: map[string]string{"api_key": "the-key-of-parcel"},
		Settings: map[string]string{"base_url": o.URL, "auth_hosts": strings.TrimPrefix(o.URL, "http://")},
	}, nil
}

func (p *parcel) Call(r *http.Request, _ []byte) simulate.Call {
	return simulate.Call{Write: r.Method != http.MethodGet}
}

func (p *parcel) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(status)
}

func says(w http.ResponseWriter, what any) { _ = json.NewEncoder(w).Encode(what) }

func (p *parcel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case r.Header.Get("Authorization") != "Bearer the-key-of-parcel":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/me":
		says(w, map[string]string{"workspace": "ws-1"})
	case r.URL.Path == "/accounts" && r.Method == http.MethodGet:
		p.list(w, r)
	case r.URL.Path == "/links":
		p.serial++
		l := &parcelLink{ID: fmt.Sprintf("link-%d", p.serial), State: "pending"}
		l.URL = p.url + "/authorize/" + l.ID
		p.links[l.ID] = l
		says(w, map[string]any{"link": l, "until": p.kit.Now().Add(10 * time.Minute)})
	case r.Method == http.MethodDelete:
		p.accounts = slices.DeleteFunc(p.accounts, func(a parcelAccount) bool { return a.ID == id })
		says(w, map[string]bool{"removed": true})
	case p.links[id] != nil:
		says(w, map[string]any{"link": p.links[id]})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// list answers with a page; the filter takes parts of addresses.
func (p *parcel) list(w http.ResponseWriter, r *http.Request) {
	found := []parcelAccount{}
	for _, a := range p.accounts {
		if strings.Contains(strings.ToLower(a.Address), strings.ToLower(r.URL.Query().Get("like"))) {
			found = append(found, a)
		}
	}
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	from := min(page*100, len(found))
	says(w, map[string]any{"page": page, "accounts": found[from:min(from+100, len(found))], "more": from+100 < len(found)})
}

// control is what the world arranges.
func (p *parcel) control(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.Method == http.MethodGet:
		says(w, p.accounts)
	case strings.HasSuffix(r.URL.Path, "/links"):
		var end parcelLink
		_ = json.NewDecoder(r.Body).Decode(&end)
		p.links[end.ID].State, p.links[end.ID].Address = end.State, end.Address
		if end.State == "done" {
			p.put(parcelAccount{Address: end.Address, Name: "Anna Schmidt", State: "ok"})
		}
	default:
		var all []parcelAccount
		_ = json.NewDecoder(r.Body).Decode(&all)
		for _, a := range all {
			p.put(a)
		}
	}
}

func (p *parcel) put(a parcelAccount) {
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
