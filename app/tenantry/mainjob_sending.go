// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// demoPlatform is where the demo connects the mailboxes.
const demoPlatform = "instantly"

// sending stores the credential of a sending platform and has each mailbox
// signed in there.
func (w *walk) sending(ctx context.Context) error {
	w.title("Store the API key of a sending platform")
	customer, _ := w.ready.Sending[demoPlatform].(map[string]any)
	made, err := w.must(ctx, http.MethodPost, "/v1/integrations", object{"provider": demoPlatform, "name": "Outbound", "api_key": customer["api_key"]})
	if err != nil {
		return err
	}
	at := "/v1/integrations/" + made.text("id")
	w.note("The key was tested, then stored encrypted. No answer of the API shows it again: %s, workspace %s", made.text("status"), made.text("provider_workspace_name"))
	w.title("Connect each mailbox to the sending platform, by a link")
	listed, err := w.must(ctx, http.MethodGet, at+"/mailboxes", nil)
	if err != nil {
		return err
	}
	for _, mailbox := range listed.objects("mailboxes") {
		if err := w.signIn(ctx, at+"/mailboxes/"+mailbox.text("mailbox_id")+"/oauth/microsoft"); err != nil {
			return err
		}
	}
	w.title("Compare with what the sending platform lists")
	refreshed, err := w.must(ctx, http.MethodPost, at+"/mailboxes/refresh", nil)
	if err != nil {
		return err
	}
	shown, err := w.must(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	counts, _ := shown["mailbox_connections"].(map[string]any)
	w.note("Compared %v mailboxes with the platform's list: %v are connected there. The service has stored %v of %v.", refreshed["checked"], refreshed["connected"], counts["connected"], counts["total"])
	if fmt.Sprint(counts["connected"]) != listed.text("count") {
		return fmt.Errorf("connected are %v of %s mailboxes", counts["connected"], listed.text("count"))
	}
	return nil
}

// signIn opens a session of a mailbox and signs in, as its owner would in a
// browser.
func (w *walk) signIn(ctx context.Context, path string) error {
	begun, err := w.must(ctx, http.MethodPost, path+"/init", nil)
	if err != nil {
		return err
	}
	mailbox := begun.text("mailbox")
	if err := accept(ctx, begun.text("auth_url"), mailbox); err != nil {
		return err
	}
	w.note("In the browser %s signs in and accepts.", mailbox)
	ended, err := w.until(ctx, http.MethodGet, path+"/status?session_id="+begun.text("session_id"), nil, func(a object, _ int) bool {
		return a.text("status") != "pending"
	})
	if err != nil {
		return err
	}
	if ended.text("status") != "connected" {
		return fmt.Errorf("the session of %s is %s", mailbox, ended.text("status"))
	}
	return nil
}

// accept posts the form that the link leads to.
func accept(ctx context.Context, link, username string) error {
	form := url.Values{"username": {username}, "decision": {"accept"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, link, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the platform's page answered %d", answer.StatusCode)
	}
	return nil
}
