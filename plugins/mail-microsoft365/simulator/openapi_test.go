// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator/openapi"
)

var graphDescription = sync.OnceValues(func() (openapi.Description, error) { return openapi.Load("testdata") })

// undocumentedPaths are paths that the tests use and the description lacks.
var undocumentedPaths = regexp.MustCompile(`^/(policies/|users/\$count$|servicePrincipals\(appId='[^']*'\)/|nothing$)`)

// checkAgainstOpenAPI fails the test when a request to Graph is not in the OpenAPI description, or
// when the answer does not match the description. It ignores undocumentedPaths.
func checkAgainstOpenAPI(t *testing.T, method, path string, answer response) {
	t.Helper()
	description, err := graphDescription()
	if err != nil {
		t.Fatal(err)
	}
	path, _, _ = strings.Cut(path, "?")
	if undocumentedPaths.MatchString(path) {
		return
	}
	operation := description.Operation(method, path)
	if operation == nil {
		t.Errorf("%s %s is not in the OpenAPI description", method, path)
	} else if err := openapi.CheckAnswer(operation, answer.status, answer.raw); err != nil {
		t.Errorf("%s %s: the answer %d does not match the OpenAPI description: %v", method, path, answer.status, err)
	}
}
