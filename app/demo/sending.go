// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// demoPlatform is the sending platform to which the demo connects the mailboxes.
const demoPlatform = "instantly"

// connectSendingPlatform stores the API key of demoPlatform and connects each mailbox to the
// platform. Then it refreshes the integration and checks that the service has stored all mailboxes
// as connected.
func (w *walkthrough) connectSendingPlatform(ctx context.Context) error {
	w.beginStep("Store the API key of a sending platform")
	customer, _ := w.ready.Sending[demoPlatform].(map[string]any)
	integration, err := w.callOK(ctx, http.MethodPost, "/v1/integrations", object{"provider": demoPlatform, "name": "Outbound", "api_key": customer["api_key"]})
	if err != nil {
		return err
	}
	path := "/v1/integrations/" + integration.text("id")
	w.printLine("The key was tested, then stored encrypted. No answer of the API shows it again: %s, workspace %s", integration.text("status"), integration.text("provider_workspace_name"))
	w.beginStep("Connect each mailbox to the sending platform, by a link")
	listed, err := w.callOK(ctx, http.MethodGet, path+"/mailboxes", nil)
	if err != nil {
		return err
	}
	for _, mailbox := range listed.objects("mailboxes") {
		if err := w.signIn(ctx, path+"/mailboxes/"+mailbox.text("mailbox_id")+"/oauth/microsoft"); err != nil {
			return err
		}
	}
	w.beginStep("Compare with what the sending platform lists")
	refreshed, err := w.callOK(ctx, http.MethodPost, path+"/mailboxes/refresh", nil)
	if err != nil {
		return err
	}
	current, err := w.callOK(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	counts, _ := current["mailbox_connections"].(map[string]any)
	w.printLine("Compared %v mailboxes with the platform's list: %v are connected there. The service has stored %v of %v mailboxes as connected.", refreshed["checked"], refreshed["connected"], counts["connected"], counts["total"])
	if fmt.Sprint(counts["connected"]) != listed.text("count") {
		return fmt.Errorf("%v of %s mailboxes are connected", counts["connected"], listed.text("count"))
	}
	return nil
}

// signIn opens a sign-in session for a mailbox and completes it, as the owner of the mailbox does
// in a browser. The parameter path is the API path of the mailbox's sign-in. signIn fails when the
// session does not end as connected.
func (w *walkthrough) signIn(ctx context.Context, path string) error {
	session, err := w.callOK(ctx, http.MethodPost, path+"/init", nil)
	if err != nil {
		return err
	}
	mailbox := session.text("mailbox")
	if err := acceptSignIn(ctx, session.text("auth_url"), mailbox); err != nil {
		return err
	}
	w.printLine("In the browser %s signs in and accepts.", mailbox)
	last, err := w.callUntil(ctx, http.MethodGet, path+"/status?session_id="+session.text("session_id"), nil, func(answer object, _ int) bool {
		return answer.text("status") != "pending"
	})
	if err != nil {
		return err
	}
	if last.text("status") != "connected" {
		return fmt.Errorf("the sign-in session of %s ended with the status %s", mailbox, last.text("status"))
	}
	return nil
}

// acceptSignIn submits the sign-in form of the page at link, as username. It fails when the answer
// is not 200.
func acceptSignIn(ctx context.Context, link, username string) error {
	form := url.Values{"username": {username}, "decision": {"accept"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, link, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the sign-in page answered %d", response.StatusCode)
	}
	return nil
}
