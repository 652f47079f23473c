// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"net/http"
	"strings"
)

// ConnectPage serves the page on which somebody connects a mailbox by hand, at
// a platform whose API has no sign-in. It shows Microsoft's part of it too.
type ConnectPage struct {
	Platform string // for people
	Path     string // of the page
	Connect  func(address string) error
}

// ServeHTTP shows the page, for the mailbox that its link names, and takes the
// pressed button.
func (c ConnectPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := SignInPage{Platform: c.Platform}
	address := strings.TrimSpace(r.PostFormValue("username"))
	switch {
	case r.Method != http.MethodPost:
		page.Action, page.Username = c.Path, r.URL.Query().Get("username")
	case r.PostFormValue("decision") != "accept":
		page.Problem = "Nothing was connected: you did not accept."
	case !strings.Contains(address, "@"):
		page.Status, page.Action, page.Problem = http.StatusBadRequest, c.Path, "Give the address of a mailbox."
	default:
		if err := c.Connect(address); err != nil {
			page.Status, page.Problem = http.StatusInternalServerError, err.Error()
		}
	}
	page.Show(w)
}
