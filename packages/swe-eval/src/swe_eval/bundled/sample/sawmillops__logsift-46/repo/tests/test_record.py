import unittest
from datetime import datetime

from logsift import Filter, parse_records

LINES = """\
lost line
2024-01-03 04:12:55,103 ERROR db.pool connection lost
Traceback (most recent call last):
OSError
2024-01-03T04:12:56 INFO web  GET /
""".splitlines(True)


class RecordTest(unittest.TestCase):
    def setUp(self):
        self.records = list(parse_records(LINES))

    def test_fields(self):
        record = self.records[0]
        self.assertEqual(record.time, datetime(2024, 1, 3, 4, 12, 55))
        self.assertEqual((record.level, record.logger, record.message), ("ERROR", "db.pool", "connection lost"))

    def test_following_lines(self):
        self.assertEqual([len(record.extra) for record in self.records], [2, 0])

    def test_text(self):
        self.assertEqual(str(self.records[1]), "2024-01-03T04:12:56 INFO     web       GET /")

    def test_filter_level(self):
        self.assertEqual([r.logger for r in filter(Filter("WARNING"), self.records)], ["db.pool"])

    def test_filter_time_is_half_open(self):
        until = Filter(until=datetime(2024, 1, 3, 4, 12, 56))
        self.assertEqual([r.logger for r in filter(until, self.records)], ["db.pool"])

    def test_filter_logger(self):
        self.assertEqual(len(list(filter(Filter(logger="db.*"), self.records))), 1)

    def test_unknown_level(self):
        self.assertRaises(ValueError, Filter, "LOUD")


if __name__ == "__main__":
    unittest.main()
