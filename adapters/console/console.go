// SPDX-License-Identifier: Apache-2.0

// Package console serves the pages for people: the walk of an administrator's
// browser that connects a tenant. They work without JavaScript, by keyboard
// and on a narrow screen.
package console

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
)

// Options is what the pages need.
type Options struct {
	Tenants *tenants.Service
	Log     *slog.Logger
	// Timeout bounds the work behind one page; 55 s unless set.
	Timeout time.Duration
}

// New returns the handler of everything below /connect/. It is served behind
// the guard of the API, which gives each request its id, trace and log line.
func New(o Options) http.Handler {
	if o.Timeout == 0 {
		o.Timeout = 55 * time.Second
	}
	c := &pages{Options: o}
	mux := http.NewServeMux()
	mux.Handle("/connect/microsoft365/callback", c.page(http.MethodGet, c.callback))
	mux.Handle("/connect/microsoft365/signin", c.page(http.MethodGet, c.signIn))
	mux.Handle("/connect/microsoft365/confirm", c.page(http.MethodPost, c.confirm))
	mux.Handle("/", c.page("", func(*http.Request) (answer, error) {
		return answer{}, fault.RouteNotFound.With("there is no such page")
	}))
	return mux
}

type pages struct{ Options }

// answer is a page, or a redirect when to is set.
type answer struct {
	to     string
	cookie *http.Cookie
	page   string // template
	data   any
}

// page runs one step and writes what it answers. An error becomes the page
// that explains it.
func (c *pages) page(method string, step func(*http.Request) (answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harden(w)
		ctx, cancel := context.WithTimeout(r.Context(), c.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
		defer c.recovered(w, r)
		if method != "" && r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead) {
			w.Header().Set("Allow", method)
			c.explain(w, r, fault.WrongMethod.With("this page is not reached that way"))
			return
		}
		a, err := step(r)
		if err != nil {
			c.explain(w, r, err)
			return
		}
		if a.cookie != nil {
			http.SetCookie(w, a.cookie)
		}
		if a.to != "" {
			http.Redirect(w, r, a.to, http.StatusSeeOther)
			return
		}
		c.render(w, r, http.StatusOK, a.page, a.data)
	})
}

// recovered answers a panic with a page; its words stay in the log.
func (c *pages) recovered(w http.ResponseWriter, r *http.Request) {
	if p := recover(); p != nil {
		c.Log.ErrorContext(r.Context(), "panic in a page", "panic", p)
		c.explain(w, r, fault.InternalError.With("something went wrong on our side"))
	}
}

func (c *pages) callback(r *http.Request) (answer, error) {
	redirect, err := c.Tenants.Callback(r.Context(), r.URL.RawQuery)
	if err != nil {
		return answer{}, err
	}
	return answer{to: redirect.URL, cookie: c.bind(redirect.Cookie)}, nil
}

func (c *pages) signIn(r *http.Request) (answer, error) {
	offer, err := c.Tenants.SignedIn(r.Context(), r.URL.RawQuery, c.bound(r))
	return answer{page: "confirm", data: offer}, err
}

func (c *pages) confirm(r *http.Request) (answer, error) {
	r.Body = http.MaxBytesReader(nil, r.Body, 4<<10)
	if err := r.ParseForm(); err != nil {
		return answer{}, fault.InvalidRequest.With("the form could not be read")
	}
	decision := r.PostForm.Get("decision")
	if decision != "connect" && decision != "cancel" {
		return answer{}, fault.InvalidRequest.With("the form says neither connect nor cancel")
	}
	t, err := c.Tenants.Confirm(r.Context(), c.bound(r), r.PostForm.Get("csrf"), decision == "connect")
	if err != nil {
		return answer{}, err
	}
	if decision == "cancel" {
		return answer{page: "cancelled", cookie: c.unbind()}, nil
	}
	return answer{page: "connected", data: t, cookie: c.unbind()}, nil
}

// cookieName follows the rule of the __Host- prefix: it needs TLS, so plain
// HTTP, which is for loopback alone, does without.
func (c *pages) cookieName() string {
	if c.secure() {
		return "__Host-tenantry-connect"
	}
	return "tenantry-connect"
}

func (c *pages) secure() bool { return strings.HasPrefix(c.Tenants.PublicURL, "https:") }

func (c *pages) bind(value secret.Text) *http.Cookie {
	// Lax: the platform's redirect back to us is a navigation from elsewhere.
	return &http.Cookie{
		Name: c.cookieName(), Value: value.Reveal(), Path: "/", MaxAge: int((15 * time.Minute).Seconds()),
		HttpOnly: true, Secure: c.secure(), SameSite: http.SameSiteLaxMode,
	}
}

func (c *pages) unbind() *http.Cookie {
	return &http.Cookie{
		Name: c.cookieName(), Path: "/", MaxAge: -1, HttpOnly: true, Secure: c.secure(), SameSite: http.SameSiteLaxMode,
	}
}

func (c *pages) bound(r *http.Request) secret.Text {
	cookie, err := r.Cookie(c.cookieName())
	if err != nil {
		return secret.Text{}
	}
	return secret.New(cookie.Value)
}
