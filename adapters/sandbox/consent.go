// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// flowTime bounds one walk through the pages.
	flowTime = 2 * time.Minute
	// flowPages is more than any flow shows.
	flowPages = 12
	// callbackPath is where the service takes the platform's answer.
	callbackPath = "/connect/microsoft365/callback"
)

// consent is the administrator of a tenant at a browser, with a connect link
// that the owner of an API key has sent.
func (c *controller) consent(r *http.Request) (any, error) {
	var in struct {
		APIKey string `json:"api_key"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.APIKey == "" {
		return nil, badCall("api_key is missing")
	}
	who, ok := c.tenants.find(r.PathValue("id"))
	if !ok {
		return nil, missing("there is no such tenant")
	}
	ctx, cancel := context.WithTimeout(r.Context(), flowTime)
	defer cancel()
	b, err := newBrowser()
	if err != nil {
		return nil, err
	}
	link, err := c.connectLink(ctx, b, in.APIKey)
	if err != nil {
		return nil, err
	}
	page, err := b.get(ctx, link)
	if err != nil {
		return nil, err
	}
	return done{}, b.connect(ctx, page, who.Admin)
}

// connect goes from page to page until the tenant is connected or a page says
// that it will not be.
func (b *browser) connect(ctx context.Context, p page, username string) error {
	confirmed := false
	for range flowPages {
		if p.status != http.StatusOK {
			return failedFlow{p.heading, p.status}
		}
		if p.form == nil {
			if confirmed {
				return nil
			}
			return failedFlow{p.heading, p.status}
		}
		decision := p.form.fill(username)
		confirmed = decision == "connect"
		next, err := b.submit(ctx, p.form)
		if err != nil {
			return err
		}
		p = next
	}
	return failedFlow{"the pages do not come to an end", p.status}
}

// connectLink asks the service for the account's link, as any API client.
func (c *controller) connectLink(ctx context.Context, b *browser, key string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.APIURL+"/v1/tenants/connect-url", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := b.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask for the connect link: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		URL    string `json:"connect_url"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("connect link: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", failedFlow{"connect-url: " + answer.Code + ": " + answer.Detail, resp.StatusCode}
	}
	return answer.URL, nil
}

// consentBeforehand has a tenant's administrator approve the application
// without connecting the tenant to any account.
func (c *controller) consentBeforehand(ctx context.Context, id string) error {
	who, ok := c.tenants.find(id)
	if !ok {
		return missing("there is no such tenant")
	}
	link, err := c.Consent.ConsentURL(ctx, "managed", c.APIURL+callbackPath)
	if err != nil {
		return fmt.Errorf("consent of a managed tenant: %w", err)
	}
	b, err := newBrowser()
	if err != nil {
		return err
	}
	// The platform's answer is nobody's flow, so it is not delivered.
	b.client.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(req.URL.String(), c.APIURL+"/") {
			return http.ErrUseLastResponse
		}
		return nil
	}
	p, err := b.get(ctx, link)
	for range flowPages {
		if err != nil || p.form == nil {
			return err
		}
		p.form.fill(who.Admin)
		if p, err = b.submit(ctx, p.form); err == nil && p.status >= http.StatusBadRequest {
			err = errors.New("the administrator's consent was refused")
		}
	}
	return errors.New("the pages do not come to an end")
}
