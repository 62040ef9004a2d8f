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

project = 'nova-specguard'
author = 'nova-specguard contributors'

extensions = [
    'cliff.sphinxext',
    'sphinx.ext.autodoc',
    'oslo_config.sphinxconfiggen',
    'oslo_config.sphinxext',
]

config_generator_config_file = [
    ('../../etc/oslo-config-generator/nova-specguard.conf',
     '_static/nova-specguard'),
]

autoprogram_cliff_app_dist_name = 'nova-specguard'
# those of cliff, which all commands have
autoprogram_cliff_ignored = [
    '--help', '--format', '--column', '--quote', '--noindent', '--max-width',
    '--fit-width', '--print-empty', '--sort-column', '--sort-ascending',
    '--sort-descending']

html_theme = 'alabaster'
