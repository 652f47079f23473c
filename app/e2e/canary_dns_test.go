// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
)

// registrar gives the account a connection to Cloudflare, after one whose
// credential is refused, with commands that log all they can.
func (k *canary) registrar(account string, env []string) {
	k.rig.t.Helper()
	k.secrets["DNS credential"] = k.cloudflare.token
	for _, name := range []string{"refused DNS credential", "DNS credential"} {
		if k.secrets[name] == "" {
			k.secrets[name] = "refused" + rand.Text()
		}
		code, printed := k.loudly(env, "dns-connection", "add", "--account", account, "--provider", "cloudflare",
			"--credential-file", secretIn(k.rig.t, k.secrets[name]))
		if (code == 0) != (name == "DNS credential") {
			k.rig.t.Fatalf("%s: %d\n%s", name, code, printed)
		}
	}
	k.loudly(env, "dns-connection", "list", "-o", "json")
	k.loudly(env, "dns-connection", "add", "--account", account, "--provider", "cloudflare", "--set", "api_token="+k.cloudflare.token)
}

// loudly runs a command with its whole log and keeps what it prints.
func (k *canary) loudly(env []string, args ...string) (code int, printed []byte) {
	k.rig.t.Helper()
	cmd := exec.CommandContext(k.rig.t.Context(), k.binary.binary, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch, "TENANTRY_LOG_LEVEL=debug"}, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	k.keep("what a command prints", out.Bytes())
	return cmd.ProcessState.ExitCode(), out.Bytes()
}

// planned has the service call Cloudflare with the stored credential, taken
// and refused.
func (k *canary) planned(domainsPath, key string) {
	k.client.t.Helper()
	id := k.answered(200, "GET", domainsPath, key, nil).objects("domains")[0].text("id")
	for _, revoked := range []bool{false, true} {
		k.cloudflare.revoked.Store(revoked)
		before := k.cloudflare.calls.Load()
		k.answered(200, "GET", "/v1/domains/"+id+"/dns/plan", key, nil)
		k.answered(200, "GET", "/v1/domains/"+id+"/dns/automation", key, nil)
		if k.cloudflare.calls.Load() == before {
			k.client.t.Error("Cloudflare was not asked")
		}
	}
}
