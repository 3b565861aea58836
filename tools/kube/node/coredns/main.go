// Command coredns is CoreDNS with the plugins that the node's Corefile names (tests/kube/node_config.py), and no
// others: with all of them a fresh machine compiles the clients of three clouds first.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	coremain.Run()
}
