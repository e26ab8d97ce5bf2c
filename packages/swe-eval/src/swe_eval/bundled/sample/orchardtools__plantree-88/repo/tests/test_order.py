import unittest

from plantree import CycleError, Graph, MissingError, install_order, levels


def graph_of(**needs):
    graph = Graph()
    for name, requirements in needs.items():
        graph.add(name, requirements.split())
    return graph


class OrderTest(unittest.TestCase):
    def test_requirements_first(self):
        graph = graph_of(web="http templates", http="sockets", templates="", sockets="")
        self.assertEqual(install_order(graph), ["sockets", "http", "templates", "web"])

    def test_listed_order_is_kept(self):
        graph = graph_of(a="z m b", b="", m="", z="")
        self.assertEqual(install_order(graph), ["z", "m", "b", "a"])

    def test_diamond(self):
        graph = graph_of(top="left right", left="base", right="base", base="")
        self.assertEqual(install_order(graph, ["top"]), ["base", "left", "right", "top"])

    def test_only_what_is_wanted(self):
        graph = graph_of(a="b", b="", c="a")
        self.assertEqual(install_order(graph, ["a"]), ["b", "a"])

    def test_cycle(self):
        with self.assertRaises(CycleError) as caught:
            install_order(graph_of(a="b", b="c", c="d b", d=""))
        self.assertEqual(caught.exception.cycle, ["b", "c", "b"])

    def test_package_that_needs_itself(self):
        with self.assertRaises(CycleError) as caught:
            install_order(graph_of(a="a"))
        self.assertEqual(caught.exception.cycle, ["a", "a"])

    def test_missing(self):
        with self.assertRaisesRegex(MissingError, "a needs b: no such package"):
            install_order(graph_of(a="b"))

    def test_version_that_does_not_fit(self):
        graph = graph_of(a="b>=2")
        graph.add("b", version="1.5")
        with self.assertRaisesRegex(MissingError, "only version 1.5"):
            install_order(graph)

    def test_levels(self):
        graph = graph_of(a="b c", b="d", c="", d="")
        self.assertEqual(levels(graph), [["c", "d"], ["b"], ["a"]])
        self.assertEqual(levels(Graph()), [])


if __name__ == "__main__":
    unittest.main()
