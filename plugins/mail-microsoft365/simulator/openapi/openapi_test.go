// SPDX-License-Identifier: Apache-2.0

package openapi_test

import (
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator/openapi"
)

func TestWrongAnswersAreFound(t *testing.T) {
	description, err := openapi.Load("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	operation := description.Operation(http.MethodGet, "/domains")
	for body, valid := range map[string]bool{
		`{"value":[{"isVerified":true}]}`:                       true,
		`{"value":[{"isVerified":"yes"}]}`:                      false,
		`{"value":[{"isVerifid":true}]}`:                        false,
		`{"value":[{"@odata.type":"domain","isVerifid":true}]}`: true, // a derived type may have the property
		`{"values":[]}`:                                         false,
		``:                                                      false,
	} {
		if err := openapi.CheckAnswer(operation, http.StatusOK, []byte(body)); (err == nil) != valid {
			t.Errorf("CheckAnswer of %s returns %v, want an error: %t", body, err, !valid)
		}
	}
}
