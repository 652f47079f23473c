// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestUsersAreInPages(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	userIDs := map[string]bool{}
	next := "/users?$top=2&$select=id"
	for pages := 0; next != ""; pages++ {
		if pages > 5 {
			t.Fatal("the list has more than six pages, want it to end")
		}
		answer := testTenant.callGraph("GET", next, nil)
		for _, row := range answer.rows() {
			userIDs[row.(jsonObject)["id"].(string)] = true
		}
		link, _ := answer.valueAt("@odata.nextLink").(string)
		if link != "" && !strings.HasPrefix(link, testTenant.ready.Settings["graph_url"]+"/v1.0/") {
			t.Fatalf("the link to the next page is %s, want an address of Graph", link)
		}
		next = strings.TrimPrefix(link, testTenant.ready.Settings["graph_url"]+"/v1.0")
	}
	if len(userIDs) != 3 {
		t.Errorf("the pages have %d users, want 3", len(userIDs))
	}
	testTenant.setBehaviour(jsonObject{"page_size": 1})
	if answer := testTenant.callGraph("GET", "/users", nil); len(answer.rows()) != 1 || answer.valueAt("@odata.nextLink") == nil {
		t.Errorf("page_size: %s, want one user and a link", answer.raw)
	}
	assertGolden(t, "graph-bad-request", testTenant.callGraph("GET", "/users?$top=1000", nil))
}

func TestUsersCanBeFiltered(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	eventualHeader := func() http.Header {
		header := bearer(testTenant.token(graphScope))
		header.Set("ConsistencyLevel", "eventual")
		return header
	}
	for filter, want := range map[string]int{
		"userPrincipalName eq '" + testTenant.admin + "'":                  1,
		"accountEnabled eq true":                                           3,
		"accountEnabled eq true and userType eq 'Guest'":                   1,
		"startswith(mail,'guest')":                                         1,
		"(userType eq 'Guest')":                                            1,
		"endswith(userPrincipalName,'" + testTenant.initialDomain() + "')": 3,
		"assignedLicenses/$count ne 0":                                     1,
		"displayName eq 'O''Neil'":                                         0,
		"assignedLicenses/$count ne 0 and accountEnabled eq true":          1,
	} {
		answer := testTenant.callGraphWith(eventualHeader(), "GET", "/users?$count=true&$filter="+filter, nil)
		if answer.status != http.StatusOK || len(answer.rows()) != want || answer.valueAt("@odata.count") != float64(want) {
			t.Errorf("%s: %d %s, want 200 with %d users", filter, answer.status, answer.raw, want)
		}
	}
	for _, path := range []string{"/users?$filter=endswith(mail,'x')", "/users?$filter=assignedLicenses/$count ne 0",
		"/users?$filter=shoeSize eq 42", "/users/$count"} {
		assertGolden(t, "graph-unsupported-query", testTenant.callGraph("GET", path, nil))
	}
	if answer := testTenant.callGraphWith(eventualHeader(), "GET", "/users/$count?$filter=assignedLicenses/$count ne 0", nil); string(answer.raw) != "1" {
		t.Errorf("the count is %d %s, want 1", answer.status, answer.raw)
	}
}

func TestUserUpdateChecksValues(t *testing.T) {
	for _, tc := range []struct {
		name   string
		body   jsonObject // the userPrincipalName "admin@" stands for the administrator's
		golden string     // "" for success
	}{
		{"password and accountEnabled", enableWithPassword, ""},
		{"weak password", jsonObject{"passwordProfile": jsonObject{"password": "Short1!"}}, "graph-weak-password"},
		{"password with two character classes", jsonObject{"passwordProfile": jsonObject{"password": "onlylowercase1"}}, "graph-weak-password"},
		{"password too long", jsonObject{"passwordProfile": jsonObject{"password": strings.Repeat("Aa1!", 65)}}, "graph-weak-password"},
		{"longest allowed password", jsonObject{"passwordProfile": jsonObject{"password": strings.Repeat("Aa1!", 64)}}, ""},
		{"sign-in name", jsonObject{"userPrincipalName": "anna.keller@d.example"}, ""},
		{"sign-in name in a domain that is not in the tenant", jsonObject{"userPrincipalName": "anna@elsewhere.example"}, "graph-invalid-values"},
		{"sign-in name of another user", jsonObject{"userPrincipalName": "admin@"}, "graph-conflict"},
		{"unknown property", jsonObject{"favouriteColour": "blue"}, "graph-bad-request"},
		{"wrong type", jsonObject{"accountEnabled": "yes"}, "graph-invalid-values"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			testTenant.addMailDomain("d.example")
			id := testTenant.newMailbox("anna@d.example", "anna.d")["ExternalDirectoryObjectId"].(string)
			if upn, ok := tc.body["userPrincipalName"].(string); ok && strings.HasSuffix(upn, "@") {
				tc.body["userPrincipalName"] = testTenant.admin
			}
			answer := testTenant.callGraph("PATCH", "/users/"+id, tc.body)
			if tc.golden != "" {
				assertGolden(t, tc.golden, answer)
			} else if answer.status != http.StatusNoContent {
				t.Errorf("the answer is %d %s, want 204", answer.status, answer.raw)
			}
		})
	}
}

// TestBannedPasswordsFollowSetting checks that no word is banned by default, and that the setting
// bans words. The default list is empty, because Microsoft does not publish its list of banned
// words.
func TestBannedPasswordsFollowSetting(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	setPassword := func(password string) response {
		return testTenant.callGraph("PATCH", "/users/"+testTenant.admin, jsonObject{"passwordProfile": jsonObject{"password": password}})
	}
	passwords := []string{"Passw0rd!", "P@ssw0rd1", "Password123!", "Welcome1!", "Qwerty-12"}
	for _, password := range passwords {
		if answer := setPassword(password); answer.status != http.StatusNoContent {
			t.Errorf("the password %s: %d %s, want 204", password, answer.status, answer.raw)
		}
	}
	testTenant.setBehaviour(jsonObject{"banned_words": []string{"password", "welcome", "qwerty"}})
	for _, password := range passwords {
		assertGolden(t, "graph-weak-password", setPassword(password))
	}
	if answer := setPassword("Correct-Horse-7"); answer.status != http.StatusNoContent {
		t.Errorf("a password without a banned word: %d %s, want 204", answer.status, answer.raw)
	}
}

// TestUserUpdateNeedsPermissions checks that the password and accountEnabled need their own
// permissions, and that other properties need User.ReadWrite.All.
func TestUserUpdateNeedsPermissions(t *testing.T) {
	for role, body := range map[string]jsonObject{
		"User-PasswordProfile.ReadWrite.All": {"passwordProfile": jsonObject{"password": "Correct-Horse-7"}},
		"User.EnableDisableAccount.All":      {"accountEnabled": true},
		"User.ReadWrite.All":                 {"displayName": "Ada"},
	} {
		t.Run(role, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			if answer := testTenant.callGraph("PATCH", "/users/"+testTenant.admin, body); answer.status != http.StatusNoContent {
				t.Errorf("with the permission: %d %s, want 204", answer.status, answer.raw)
			}
			withdrawAppRole(role)(testTenant)
			assertGolden(t, "graph-denied", testTenant.callGraph("PATCH", "/users/"+testTenant.admin, body))
		})
	}
}

func TestDeleteUserDeletesMailbox(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.addMailDomain("d.example")
	id := testTenant.newMailbox("anna@d.example", "anna.d")["ExternalDirectoryObjectId"].(string)
	answer := testTenant.callGraph("GET", "/users/anna@d.example", nil)
	if answer.valueAt("id") != id || answer.valueAt("accountEnabled") != nil {
		t.Errorf("without $select: %s, want the id and no accountEnabled", answer.raw)
	}
	if answer := testTenant.callGraph("GET", "/users/"+id+"?$select=accountEnabled,assignedLicenses", nil); answer.valueAt("accountEnabled") != false || answer.valueAt("id") != nil {
		t.Errorf("with $select: %s, want accountEnabled false and no id", answer.raw)
	}
	if answer := testTenant.callGraph("DELETE", "/users/"+id, nil); answer.status != http.StatusNoContent {
		t.Errorf("DELETE answers %d %s, want 204", answer.status, answer.raw)
	}
	assertGolden(t, "graph-not-found", testTenant.callGraph("GET", "/users/"+id, nil))
	assertGolden(t, "exchange-not-found", testTenant.runCmdlet("Get-Mailbox", jsonObject{"Identity": "anna@d.example"}))
}
