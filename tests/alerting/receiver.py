#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What a pager would get: ``python -m tests.alerting.receiver PORT FILE``.

Adds each notification of Alertmanager to the file: a line of JSON with the
name of the receiver and the notification.
"""

import http.server
import json
import sys


class Handler(http.server.BaseHTTPRequestHandler):

    path_of_file = None

    def do_GET(self):
        self._answer()

    def do_POST(self):
        notification = json.loads(self.rfile.read(
            int(self.headers['Content-Length'])))
        with open(self.path_of_file, 'a') as file:
            file.write(json.dumps([self.path[1:], notification]) + '\n')
        self._answer()

    def _answer(self):
        self.send_response(200)
        self.end_headers()


if __name__ == '__main__':
    Handler.path_of_file = sys.argv[2]
    http.server.HTTPServer(
        ('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
