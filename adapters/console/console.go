// SPDX-License-Identifier: Apache-2.0

// Package console serves the web pages on which an administrator connects a tenant of the mail
// platform. The pages work without JavaScript.
//
//   - console.go: New and the handlers of the pages. Start here.
//   - render.go: the templates (pages.html, style.css), the security headers and the error page.
//   - messages.go: the texts of the error pages.
package console

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/platform"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Options configures the pages.
type Options struct {
	Tenants *tenants.Service
	Log     *slog.Logger
	// Platform is the name of the mail platform's plugin. It is the second element of the pages'
	// paths.
	Platform string
	// Facts describes the mail platform. A page omits an unknown fact, or uses general words
	// instead.
	Facts ports.PlatformFacts
	// Setting returns the value that the operator set for a setting of the mail platform. The pages
	// show the name and the id of the application that administrators approve, so that an
	// administrator can find the application later.
	Setting func(name string) string
	// Timeout limits the work for one page. The default is 55 s.
	Timeout time.Duration
}

// New returns the handler of all paths below /connect/. The handler needs package guard, the API's
// middleware, around it. The guard assigns the request id and the trace, writes the request log,
// and reads forms into memory before they reach a page.
func New(o Options) http.Handler {
	if o.Timeout == 0 {
		o.Timeout = 55 * time.Second
	}
	c := &pages{Options: o}
	mux := http.NewServeMux()
	path := tenants.ConnectPath(o.Platform)
	mux.Handle(path+"callback", c.page(http.MethodGet, c.callback))
	mux.Handle(path+"signin", c.page(http.MethodGet, c.signIn))
	mux.Handle(path+"confirm", c.page(http.MethodPost, c.confirm))
	mux.Handle("/", c.page("", func(*http.Request) (answer, error) {
		return answer{}, fault.RouteNotFound.With("there is no such page")
	}))
	return mux
}

type pages struct{ Options }

// answer is a page, or a redirect when redirectTo is set.
type answer struct {
	redirectTo string
	cookie     *http.Cookie
	page       string // the name of the template
	data       any
}

// page returns the handler of one step of the flow. The handler writes the answer of the step, or
// an error page when the step fails. If method is set, the handler refuses other methods. GET
// includes HEAD.
func (c *pages) page(method string, step func(*http.Request) (answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w)
		ctx, cancel := context.WithTimeout(r.Context(), c.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
		defer c.recoverPanic(w, r)
		if method != "" && r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead) {
			w.Header().Set("Allow", method)
			c.renderError(w, r, fault.WrongMethod.With("this page does not accept the method"), tenants.Origin{})
			return
		}
		a, err := step(r)
		if err != nil {
			c.renderError(w, r, err, c.origin(r))
			return
		}
		if a.cookie != nil {
			http.SetCookie(w, a.cookie)
		}
		if a.redirectTo != "" {
			http.Redirect(w, r, a.redirectTo, http.StatusSeeOther)
			return
		}
		c.render(w, r, http.StatusOK, a.page, a.data)
	})
}

// recoverPanic sends an error page after a panic. It logs the type and the stack of the panic. It
// does not log the panic's value, because it can contain an OAuth code.
func (c *pages) recoverPanic(w http.ResponseWriter, r *http.Request) {
	if p := recover(); p != nil {
		e := panics.ErrorOf(p)
		c.Log.ErrorContext(r.Context(), "panic in a page", "type", e.Type, "stack", e.Stack)
		c.renderError(w, r, fault.InternalError.With("a page panicked"), tenants.Origin{})
	}
}

// origin returns what a page shows about the account that requested the connect link. If the link
// is unknown or cannot be read, origin returns an empty value, because the page is useful without
// this information.
func (c *pages) origin(r *http.Request) tenants.Origin {
	var origin tenants.Origin
	var err error
	if r.URL.Path == tenants.ConnectPath(c.Platform)+"callback" {
		origin, err = c.Tenants.CallbackOrigin(r.Context(), r.URL.RawQuery)
	} else {
		origin, err = c.Tenants.BrowserOrigin(r.Context(), c.cookieValue(r))
	}
	if err != nil {
		c.Log.WarnContext(r.Context(), "the origin of a connect link cannot be read", "error", err)
	}
	return origin
}

func (c *pages) callback(r *http.Request) (answer, error) {
	redirect, err := c.Tenants.Callback(r.Context(), r.URL.RawQuery)
	if err != nil {
		return answer{}, err
	}
	return answer{redirectTo: redirect.URL, cookie: c.newCookie(redirect)}, nil
}

func (c *pages) signIn(r *http.Request) (answer, error) {
	offer, err := c.Tenants.FinishSignIn(r.Context(), r.URL.RawQuery, c.cookieValue(r))
	return answer{page: "confirm", data: confirmPage{offer, tenants.ConnectPath(c.Platform) + "confirm"}}, err
}

func (c *pages) confirm(r *http.Request) (answer, error) {
	if err := r.ParseForm(); err != nil { // package guard has read the body and limited its size
		return answer{}, fault.InvalidRequest.With("the form could not be read")
	}
	decision := r.PostForm.Get("decision")
	if decision != "connect" && decision != "cancel" {
		return answer{}, fault.InvalidRequest.With("the form says neither connect nor cancel")
	}
	t, err := c.Tenants.Confirm(r.Context(), c.cookieValue(r), r.PostForm.Get("csrf"), decision == "connect")
	if err != nil {
		return answer{}, err
	}
	end := endPage{t, c.removal(r), sendlimit.RulePrefix, c.origin(r)}
	if decision == "cancel" {
		return answer{page: "cancelled", data: end, cookie: c.expiredCookie()}, nil
	}
	return answer{page: "connected", data: end, cookie: c.expiredCookie()}, nil
}

type confirmPage struct {
	tenants.ConfirmationPage

	ConfirmPath string
}

// endPage is the data of the pages that end the flow.
type endPage struct {
	tenant.Tenant
	removal

	RulePrefix string // the prefix of the names of the mail flow rules that tenantry creates
	Origin     tenants.Origin
}

// removal describes how an administrator removes the objects that the connection created at the
// mail platform.
type removal struct {
	platform.Facts
	ApplicationName, ApplicationID string // each is empty if it is not known
}

// applicationNameSetting is the setting of a mail platform that holds the name of the application
// that administrators approve.
const applicationNameSetting = "application_name"

func (c *pages) removal(r *http.Request) removal {
	facts := c.platformFacts(r)
	return removal{facts, c.Setting(applicationNameSetting), c.Setting(facts.ApplicationField)}
}

// platformFacts returns the known facts about the mail platform. It returns no facts if the plugin
// does not answer.
func (c *pages) platformFacts(r *http.Request) platform.Facts {
	facts, err := c.Facts.Facts(r.Context())
	if err != nil {
		return platform.Facts{}
	}
	return facts
}

// cookieName returns the name of the flow's cookie. Browsers accept the prefix __Host- only over
// TLS. On loopback, the service can run without TLS. The name then has no prefix.
func (c *pages) cookieName() string {
	if c.isHTTPS() {
		return "__Host-tenantry-connect"
	}
	return "tenantry-connect"
}

func (c *pages) isHTTPS() bool { return strings.HasPrefix(c.Tenants.PublicURL, "https:") }

// newCookie returns the cookie of a flow, which expires with the flow. Its Max-Age is at least one
// second: net/http omits a Max-Age of 0, and the cookie would then live until the browser is
// closed.
func (c *pages) newCookie(redirect tenants.Redirect) *http.Cookie {
	seconds := int(redirect.ExpiresAt.Sub(c.Tenants.Now()).Seconds())
	// With SameSite=Lax, the browser also sends the cookie when the platform redirects to tenantry.
	// With SameSite=Strict it would not, because the navigation starts at another site.
	return &http.Cookie{
		Name: c.cookieName(), Value: redirect.Cookie.Reveal(), Path: "/", MaxAge: max(1, seconds),
		HttpOnly: true, Secure: c.isHTTPS(), SameSite: http.SameSiteLaxMode,
	}
}

func (c *pages) expiredCookie() *http.Cookie {
	return &http.Cookie{
		Name: c.cookieName(), Path: "/", MaxAge: -1, HttpOnly: true, Secure: c.isHTTPS(), SameSite: http.SameSiteLaxMode,
	}
}

func (c *pages) cookieValue(r *http.Request) secret.Text {
	cookie, err := r.Cookie(c.cookieName())
	if err != nil {
		return secret.Text{}
	}
	return secret.New(cookie.Value)
}
